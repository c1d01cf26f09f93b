"""Committed offsets: consistent with what the group consumed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import fault
from tests.support.one_checker import verdict_on

THREE = ("0 ok send a", "0 ok send b", "0 ok send c")


def check(name: str, *ops: str, **changes: object) -> Verdict:
    return verdict_on(ops, name, **changes)


@pytest.mark.parametrize(
    ("ops", "anomaly"),
    [
        (["1 ok consume a b", "1 ok commit 0:2"], None),
        (["1 ok consume a b", "1 ok commit 0:1"], None),
        (["1 ok consume a", "1 ok commit 0:3"], "commit_ahead"),
        # consumed later does not count, nor does a listener that failed, nor another group
        (["1 ok consume a", "1 ok commit 0:2", "1 ok consume b"], "commit_ahead"),
        (["1 ok consume a", "1 info consume b", "1 ok commit 0:2"], "commit_ahead"),
        (["1 ok consume a", "2 ok consume b group=h", "1 ok commit 0:2"], "commit_ahead"),
        (
            ["1 ok consume a", "1 invoke consume b", "1 ok commit 0:2", "1 ok consume b"],
            "commit_ahead",
        ),
        # a group may begin anywhere, but from there on it must consume
        (["1 ok commit 0:2"], None),
        (["1 ok commit 0:2", "1 ok commit 0:3"], "commit_ahead"),
        (["1 ok commit 0:2", "1 ok consume c", "1 ok commit 0:3"], None),
        # another member of the group may commit what the first consumed
        (["1 ok consume a b", "2 ok commit 0:2"], None),
        (["1 ok consume a b", "1 ok commit 0:2", "1 ok commit 0:1"], "commit_rewound"),
        (["1 ok consume a b", "1 ok commit 0:2", "2 ok commit 0:1"], None),
    ],
)
def test_commits(ops: list[str], anomaly: str | None) -> None:
    verdict = check("offsets", *THREE, *ops)

    assert [finding.anomaly for finding in verdict.findings] == ([anomaly] if anomaly else [])
    assert verdict.valid is (anomaly is None)


@pytest.mark.parametrize(
    ("ops", "anomaly"),
    [
        # each member has a file of its own
        (["1 ok consume a b", "1 ok commit 0:2", "2 ok consume a", "2 ok commit 0:1"], None),
        (["1 ok consume a b", "2 ok consume a", "2 ok commit 0:2"], "commit_ahead"),
        (["1 ok consume a b", "2 ok commit 0:1", "2 ok commit 0:2"], "commit_ahead"),
        (["1 ok consume a b", "2 ok commit 0:2"], None),  # there it begins
        # what its listener failed for is passed over, and not before it has failed
        (["1 ok consume a", "1 info consume b", "1 ok commit 0:2"], None),
        (
            ["1 ok consume a", "1 invoke consume b", "1 ok commit 0:2", "1 info consume b"],
            "commit_ahead",
        ),
        (["1 ok consume a", "1 info consume b", "1 ok commit 0:3"], "commit_ahead"),
    ],
)
def test_commits_of_broadcast_members(ops: list[str], anomaly: str | None) -> None:
    verdict = check("offsets", *THREE, *ops, broadcasting=("g",))

    assert [finding.anomaly for finding in verdict.findings] == ([anomaly] if anomaly else [])


REWOUND = (*THREE, "1 ok consume a b t=1", "1 ok commit 0:2 t=2", "1 ok commit 0:1 t=9")


@pytest.mark.parametrize(
    ("nodes", "replication", "is_settled"),
    [
        (("n0", "n1", "n2"), "sync", False),  # one slave may lack it
        (("n0", "n1"), "sync", True),
        (("n0", "n1"), "async", True),  # its master has it, and no slave sends a consumer back
    ],
)
def test_a_fault_of_the_master_makes_a_rewind_informational(
    nodes: tuple[str, ...], replication: str, is_settled: bool
) -> None:
    kill = fault("kill", "n0", at_s=5, healed_s=6)
    known = {"replica_sets": {"b": nodes}, "replication": replication}

    verdict = check("offsets", "1 ok assign 0 t=0.5", *REWOUND, faults=(kill,), **known)

    anomaly = "commit_rewound" if is_settled else "commit_rewound_informational"
    assert (verdict.valid, verdict.counts[anomaly]) == (not is_settled, 1)


OWNED = ("1 ok open node=c1", "2 ok open node=c2", *THREE, "1 ok assign 0 t=1", "1 ok consume a b")


@pytest.mark.parametrize(
    ("ops", "why"),
    [
        # what a member commits once another one has taken over is the uncommitted window
        (["2 ok assign 0 t=5", "1 ok commit 0:2 t=5.5", "2 ok commit 0:1 t=9"], None),
        (["1 ok commit 0:2 t=2", "2 ok assign 0 t=5", "2 ok commit 0:1 t=9"], "2 was surely committed"),
        (["1 ok commit 0:2 t=2", "1 ok assign t=4", "1 ok assign 0 t=5", "1 ok commit 0:1 t=9"], "2 was surely"),
        (["1 ok commit 0:2 t=2", "1 ok commit 0:1 t=9"], "by the same owner"),
        (["1 ok commit 0:2 t=2", "2 ok commit 0:0 t=9"], "never had the queue"),
        (
            ["1 ok assign t=3", "2 ok assign 0 t=4", "2 ok commit 0:2 t=5", "1 ok commit 0:1 t=9"],
            "had lost the queue before",
        ),
    ],
)  # fmt: skip
def test_who_may_set_an_offset_back(ops: list[str], why: str | None) -> None:
    verdict = check("offsets", *OWNED, *ops)

    assert verdict.valid is (why is None)
    [finding] = verdict.findings
    assert finding.anomaly == "commit_rewound"
    assert (why or "took the queue over") in finding.detail


@pytest.mark.parametrize(("committed", "valid"), [(1, True), (2, True), (0, False)])
def test_a_reset_sets_a_member_back_beside_another_owner(committed: int, valid: bool) -> None:
    """Both members own the queue, and an operator resets the offset of the group at 5 s."""
    reset = fault("offsets_reset", at_s=5, healed_s=5.1)
    ops = (
        *("2 ok assign 0 t=1.5", "1 ok commit 0:2 t=2", "1 ok commit 0:1 t=5.2"),
        *("2 ok commit 0:2 t=5.3", f"1 ok commit 0:{committed} t=9"),
    )

    assert check("offsets", *OWNED, *ops, faults=(reset,)).valid is valid


@pytest.mark.parametrize(
    ("unclear", "valid"),
    [
        ("1 info commit 0:1 t=1.5", True),
        ("1 info commit 0:1 t=2.5", True),
        ("1 info commit 0:2 t=1.5", False),
        ("1 info commit 1:1 t=1.5", False),  # of another queue
        ("1 info commit 0:1 t=1.5 group=h", False),
        ("1 fail commit 0:1 t=1.5", False),
    ],
)
def test_a_commit_without_a_confirmation_may_come_later(unclear: str, valid: bool) -> None:
    ops = sorted(
        [unclear, "1 ok commit 0:2 t=2"], key=lambda op: float(op.split("t=")[1].split()[0])
    )

    verdict = check("offsets", *OWNED, *ops, "2 ok assign 0 t=8", "2 ok commit 0:1 t=9")

    assert verdict.valid is valid


def test_no_commit_comes_later_than_what_a_closed_connection_sends_again() -> None:
    ops = ("1 info commit 0:1 t=1.5", "1 ok commit 0:2 t=2")

    verdict = check("offsets", *OWNED, *ops, "2 ok assign 0 t=130", "2 ok commit 0:1 t=131")

    assert verdict.valid is False


@pytest.mark.parametrize(
    ("of", "valid"),
    [
        (fault("kill", "n0", at_s=4, healed_s=6), True),
        (fault("kill", "n9", at_s=4, healed_s=6), False),
        (fault("kill", "n0", at_s=4, healed_s=6, bitten=False), False),
        (fault("client_crash", "c1", at_s=4, healed_s=6), False),
        (fault("offsets_reset", at_s=4, healed_s=6), True),
    ],
)
def test_a_broker_may_have_forgotten_what_was_committed(of: FaultFacts, valid: bool) -> None:
    ops = ("1 ok commit 0:2 t=2", "2 ok assign 0 t=8", "2 ok commit 0:1 t=9")

    assert check("offsets", *OWNED, *ops, faults=(of,)).valid is valid


@pytest.mark.parametrize(
    ("commits", "valid"),
    [
        ("0:2 0:0", True),
        ("0:2 0:0 0:1 0:2", True),
        ("0:2 0:1 0:0", False),
        ("0:2 0:0 0:2 0:1", False),
    ],
)
@pytest.mark.parametrize("owned", [OWNED, THREE])
def test_a_reset_sets_an_owner_back_once(owned: tuple[str, ...], commits: str, valid: bool) -> None:
    ops = [f"1 ok commit {offset} t={5 + at / 10}" for at, offset in enumerate(commits.split())]
    reset = fault("offsets_reset", at_s=5.05, healed_s=6)

    assert check("offsets", *owned, *ops, faults=(reset,)).valid is valid
    again = replace(reset, fault_id="again")
    assert check("offsets", *owned, *ops, faults=(reset, again)).valid is True


@pytest.mark.parametrize(
    ("drain", "anomaly"),
    [
        ("9 ok drain 0:3:3", None),
        ("9 ok drain 0:3:4", "commit_beyond_end"),
        ("9 info drain 0:3:4", "commit_beyond_end"),
        ("9 ok drain 0:3:2", "commit_behind"),
        ("9 info drain 0:3:2", None),  # the lag is known: that is liveness
    ],
)
def test_offsets_at_the_drain(drain: str, anomaly: str | None) -> None:
    verdict = check("drained_offsets", *THREE, drain)

    assert [finding.anomaly for finding in verdict.findings] == ([anomaly] if anomaly else [])


LOST = replace(fault("disk_lost", "n0", at_s=3, healed_s=4), permanent=True)


@pytest.mark.parametrize(
    ("ops", "of", "changes", "valid"),
    [
        (("1 ok commit 0:4 t=2",), LOST, {}, True),
        (("1 ok consume a@0:3 t=2",), LOST, {}, True),
        ((), LOST, {}, False),  # no member has come as far
        (("1 ok commit 0:4 t=2 group=h",), LOST, {}, False),
        (("1 ok commit 1:4 t=2",), LOST, {}, False),
        ((), LOST, {"wanted_tags": {"g": ("x",)}}, True),  # a filter leaves out what is not said
        (("1 ok commit 0:4 t=2",), replace(LOST, targets=("n1",)), {}, False),  # a slave's disk
        (("1 ok commit 0:4 t=2",), replace(LOST, permanent=False), {}, False),
    ],
)
def test_a_lost_disk_explains_an_offset_that_a_member_has_reached(
    ops: tuple[str, ...], of: FaultFacts, changes: dict[str, object], valid: bool
) -> None:
    lines = (*THREE, *ops, "9 ok drain 0:3:4 t=9")
    known = {"replica_sets": {"b": ("n0", "n1")}, "faults": (of,), **changes}
    assert check("drained_offsets", *lines, **known).valid is valid


def test_without_a_drain_nothing_is_known_about_ends() -> None:
    verdict = check("drained_offsets", *THREE)

    assert (verdict.valid, verdict.reason) == ("unknown", "no group was drained")


@pytest.mark.parametrize(
    ("changes", "valid"),
    [({}, "unknown"), ({"topics_everywhere": False}, True), ({"living": ()}, True)],
)
def test_a_complete_drain_that_leaves_out_a_queue_proves_nothing(
    changes: dict[str, object], valid: bool | str
) -> None:
    verdict = check("drained_offsets", "1 ok assign 0 1", *THREE, "9 ok drain 0:3:3", **changes)

    assert verdict.valid == valid
    assert verdict.reason == (None if valid is True else "the drain of g leaves out queue 1 of b")
