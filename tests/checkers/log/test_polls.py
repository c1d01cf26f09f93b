"""Consecutive polls of an owner: each continues the last one, or starts from the committed offset."""

from __future__ import annotations

import pytest

from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import judged_by

FIVE = ("0 ok send a", "0 ok send b", "0 ok send c", "0 ok send d", "0 ok send e")


def check(*ops: str, **changes: object) -> Verdict:
    return judged_by("polls", history(*FIVE, *ops), [], facts(**changes))


def found(verdict: Verdict) -> list[tuple[str, str | None]]:
    return [(finding.anomaly, finding.key) for finding in verdict.findings]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ops", "anomaly"),
    [
        (["1 ok consume a b c"], None),
        (["1 ok consume a", "1 ok consume b c"], None),
        (["1 ok consume a", "1 ok consume c"], ("poll_skip", "c")),
        (["1 ok consume a c"], ("int_poll_skip", "c")),
        # skipped by one call, and given by a later one
        (["1 invoke consume a", "1 invoke consume c", "1 ok consume a"], ("poll_skip", "c")),
        # without any committed offset, who knows where the group began
        (["1 ok consume c"], None),
        (["1 ok consume a b", "1 ok commit 0:2", "2 ok consume d"], ("poll_skip", "d")),
        (["1 ok consume a b", "1 ok commit 0:2", "2 ok consume c"], None),
        (
            ["1 ok consume a b", "1 ok commit 0:2", "1 ok assign 0", "1 ok consume d"],
            ("poll_skip", "d"),
        ),
        (["1 ok consume a b", "1 ok assign 0", "1 ok consume d"], None),
        # a commit that came later was not known
        (["1 ok consume a", "2 ok consume c", "1 ok commit 0:1"], None),
        # what others of the group had was not skipped; what another group had was
        (["1 ok consume a", "2 ok consume b", "1 ok consume c"], None),
        (["1 ok consume a", "2 ok consume b group=h", "1 ok consume c"], ("poll_skip", "c")),
        # messages that no broker acknowledged may be absent
        (
            ["0 info send x@0:5", "1 ok consume a b c d e", "0 ok send y@0:6", "1 ok consume y"],
            None,
        ),
        # retention: the queue begins at 2
        (["1 ok consume a", "1 ok consume c", "9 ok drain 0:5:5 min=2"], None),
        (["1 ok consume a", "1 ok consume d", "9 ok drain 0:5:5 min=2"], ("poll_skip", "d")),
    ],
)
def test_skips(ops: list[str], anomaly: tuple[str, str] | None) -> None:
    verdict = check(*ops)

    assert found(verdict) == ([anomaly] if anomaly else [])
    assert verdict.valid is (anomaly is None)


@pytest.mark.parametrize(
    ("ops", "anomaly", "valid"),
    [
        (["1 ok consume a b", "1 ok consume a b"], "nonmonotonic_poll", True),
        (["1 ok consume a b", "1 ok commit 0:1", "1 ok consume b"], "nonmonotonic_poll", True),
        (["1 ok consume a b", "1 ok commit 0:2", "1 ok consume b"], "nonmonotonic_poll", False),
        # its listener had not finished, or it comes as a retry
        (["1 info consume a", "1 ok consume a"], None, True),
        (["1 ok consume a", "1 ok consume a~1"], None, True),
        # a member repeats its own failed attempt, whatever another owner has consumed and committed meanwhile
        (
            ["1 info consume a b", "2 ok consume a b", "2 ok commit 0:2", "1 ok consume a b"],
            None,
            True,
        ),
        # ... which explains nothing to a member whose own attempt had succeeded
        (
            ["1 ok consume a b", "2 ok consume a b", "2 ok commit 0:2", "1 ok consume a"],
            "nonmonotonic_poll",
            False,
        ),
        # late: the group had not had it at all
        (["1 ok consume b", "1 ok consume a"], "nonmonotonic_poll", False),
        # nothing explains that one call goes back
        (["1 info consume a a"], "int_nonmonotonic_poll", False),
        # another owner, or a new assignment: the duplication checker's business
        (["1 ok consume a b", "1 ok commit 0:2", "2 ok consume b"], None, True),
        (["1 ok consume a b", "1 ok commit 0:2", "1 ok assign 0", "1 ok consume b"], None, True),
    ],
)
def test_going_back(ops: list[str], anomaly: str | None, valid: bool) -> None:
    verdict = check(*ops)

    assert [finding.anomaly for finding in verdict.findings] == ([anomaly] if anomaly else [])
    assert verdict.valid is valid


@pytest.mark.parametrize(
    ("nodes", "replication", "anomaly"),
    [
        (("n0", "n1"), "async", "nonmonotonic_poll"),  # settled: its master has it
        (("n0", "n1", "n2"), "sync", "nonmonotonic_poll_informational"),  # one slave may lack it
        (("n0", "n1"), "sync", "nonmonotonic_poll"),  # settled: each replica had it
        (("n0",), "none", "nonmonotonic_poll"),  # no slave ever showed anything
    ],
)
def test_a_fault_of_the_master_may_set_back_what_is_not_settled(
    nodes: tuple[str, ...], replication: str, anomaly: str
) -> None:
    ops = [
        "1 ok assign 0 t=0.5",
        "1 ok consume a b t=1",
        "1 ok commit 0:2 t=2",
        "1 ok consume b t=9",
    ]
    kill = fault("kill", "n0", at_s=5, healed_s=6)

    verdict = check(*ops, faults=(kill,), replica_sets={"b": nodes}, replication=replication)

    assert verdict.counts[anomaly] == 1


@pytest.mark.parametrize(
    ("owned", "then", "anomaly"),
    [
        (True, ["b", "c"], "nonmonotonic_poll_informational"),  # it pulls what follows again
        (True, ["b c", "d"], "nonmonotonic_poll_informational"),  # in one call
        (True, ["b", "d"], "nonmonotonic_poll"),
        # another member may have had it between
        (False, ["b", "d"], "nonmonotonic_poll_informational"),
    ],
)
def test_an_owner_that_is_set_back_goes_on_from_there(
    owned: bool, then: list[str], anomaly: str
) -> None:
    ops = [
        *(["1 ok assign 0 t=0.5"] if owned else []),
        "1 ok consume a b c d t=1",
        "1 ok commit 0:4 t=2",
        f"1 ok consume {then[0]} t=9",
        f"1 ok consume {then[1]} t=9.1",
    ]
    kill = fault("kill", "n0", at_s=5, healed_s=6)
    nodes = ("n0", "n1", "n2")
    verdict = check(*ops, faults=(kill,), replica_sets={"b": nodes}, replication="sync")
    [finding] = [of for of in verdict.findings if of.key == "b"]
    judged = "" if finding.judgement == "violation" else f"_{finding.judgement}"
    assert finding.anomaly + judged == anomaly


@pytest.mark.parametrize(("flush", "valid"), [("sync", False), ("async", True)])
def test_a_skip_is_excused_as_its_loss_would_be(flush: str, valid: bool) -> None:
    ops = ["1 ok consume a t=1", "1 ok consume c t=20"]
    cut = fault("power_cut", "n0", at_s=5, healed_s=6)

    assert check(*ops, flush=flush, faults=(cut,)).valid is valid


def test_a_group_that_may_filter_skips_nothing() -> None:
    assert check("1 ok consume a", "1 ok consume c", groups={}).findings == ()


def test_members_of_a_broadcasting_group_keep_their_own_offsets() -> None:
    ops = ["1 ok consume a b", "1 ok commit 0:2", "2 ok consume a", "2 ok consume a~1"]

    assert check(*ops, broadcasting=("g",)).findings == ()


@pytest.mark.parametrize(
    ("assigned", "anomaly"),
    [
        ((), ("poll_skip", "d")),
        # it kept the queue
        (("1 ok assign 0",), ("poll_skip", "d")),
        (("1 ok assign 0 1",), ("poll_skip", "d")),
        (("1 ok assign 0 topic=u",), ("poll_skip", "d")),
        (("1 ok assign 0 group=h",), ("poll_skip", "d")),
        (("2 ok assign 0",), ("poll_skip", "d")),
        # it lost the queue, and what it is given now it had at hand
        (("1 ok assign 1",), ("poll_skip", "d")),
        # it had the queue anew
        (("1 ok assign 1", "1 ok assign 0"), None),
    ],
)
def test_only_a_queue_that_is_gained_anew_is_begun_anew(
    assigned: tuple[str, ...], anomaly: tuple[str, str] | None
) -> None:
    verdict = check("1 ok assign 0", "1 ok consume a b", *assigned, "1 ok consume d")

    assert found(verdict) == ([anomaly] if anomaly else [])


def test_a_message_held_back_behind_an_assignment_that_changed_nothing() -> None:
    ops = ("1 ok consume a b d", "1 ok assign 0 t=10", "1 ok consume c t=20")

    verdict = check("1 ok assign 0", *ops)

    assert found(verdict) == [("int_poll_skip", "d"), ("nonmonotonic_poll", "c")]


@pytest.mark.parametrize(
    "proof", ["2 ok consume x@0:5 y group=h", "2 info consume x@0:5 y group=h"]
)
@pytest.mark.parametrize(
    ("given", "anomaly"),
    [("1 ok consume e / 1 ok consume z", "poll_skip"), ("1 ok consume e z", "int_poll_skip")],
)
def test_what_another_group_was_given_is_there_whatever_its_send_came_to(
    proof: str, given: str, anomaly: str
) -> None:
    sent = ("0 info send x@0:5", "0 info send y error=FLUSH_DISK_TIMEOUT", "0 ok send z")
    ops = ("1 ok consume a b c d", *given.split(" / "))
    both = {"groups": {"g": ("t",), "h": ("t",)}}

    assert found(check(*sent, *ops, proof, **both)) == [(anomaly, "z")]
    assert found(check(*sent, *ops, **both)) == []


@pytest.mark.parametrize(("cut_s", "valid"), [(5, False), (30, True)])
def test_its_skip_is_excused_by_faults_after_it_was_seen(cut_s: float, valid: bool) -> None:
    cut = fault("power_cut", "n0", at_s=cut_s, healed_s=cut_s + 1)
    ops = ("0 info send x@0:5 t=1", "0 ok send z@0:6 t=40", "2 ok consume x@0:5 group=h t=20")
    both = {"groups": {"g": ("t",), "h": ("t",)}, "flush": "async"}

    verdict = check(*ops, "1 ok consume a b c d e t=41", "1 ok consume z", faults=(cut,), **both)

    assert [finding.anomaly for finding in verdict.findings] == ["poll_skip"]
    assert verdict.valid is valid


@pytest.mark.parametrize("other", ["2 ok consume a b c d e", "1 ok consume a b c d e group=h"])
def test_a_broadcast_member_reads_for_itself(other: str) -> None:
    given = ("1 ok consume a b d", "1 ok consume c", "1 ok consume e")
    expected = [("int_poll_skip", "d"), ("nonmonotonic_poll", "c"), ("poll_skip", "e")]

    verdict = check(other, *given, broadcasting=("g",))

    assert found(verdict) == expected[: len(verdict.findings)]
    assert verdict.counts["int_poll_skip"] == verdict.counts["nonmonotonic_poll"] == 1
