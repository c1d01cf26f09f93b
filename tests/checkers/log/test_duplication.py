"""Duplicate deliveries, and their explanations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts, OffsetsReset
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.log import duplication
from staticfire.checkers.model.history import Op, OpType
from staticfire.checkers.verdicts.compose import check_run
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import only, verdict_on


def check_duplication(*ops: str, **changes: object) -> Verdict:
    return verdict_on(ops, "duplication", **changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ops", "why"),
    [
        (["0 info send a", "1 ok consume a"], None),  # a timed-out send that arrives: no duplicate
        (["0 ok send a", "1 ok consume a", "2 ok consume a group=h"], None),
        (["0 info send a", "1 ok consume a@0:0", "1 ok consume a@1:0"], "outcome is unknown"),
        (["0 ok send a attempts=2", "1 ok consume a", "1 ok consume a@1:0"], "with 2 attempts"),
        (
            [
                "0 info send a error=FLUSH_SLAVE_TIMEOUT",
                "1 ok consume a@0:0",
                "1 ok consume a@0:1",
            ],
            "weakly acknowledged",
        ),
        (["0 ok send a", "1 info consume a", "1 ok consume a"], "did not finish"),
        (["0 ok send a", "1 invoke consume a", "2 ok consume a"], "did not finish"),
        (["0 ok send a", "1 ok consume a", "1 ok consume a~1"], "retried by the consumer"),
        (["0 ok send a", "1 ok consume a", "2 ok consume a"], "does not say who owns"),
        (  # 2 may have had the queue in between
            [
                *("1 ok open node=c1 group=g t=1", "2 ok open node=c2 group=g t=1.1"),
                *("0 ok send a", "1 ok consume a", "1 ok consume a"),
            ],
            "a member came or went",
        ),
        (  # 2 ends, at the latest when its node opens again
            [
                *(
                    "1 ok open node=c1 group=g t=1",
                    "2 ok open node=c2 group=g",
                    "0 ok send a t=100",
                ),
                *("1 ok consume a", "3 ok open node=c2 group=h", "1 ok consume a"),
            ],
            "a member came or went",
        ),
        (
            ["1 ok assign 0", "0 ok send a", "1 ok consume a", "2 ok assign 0", "2 ok consume a"],
            "changed its owner",
        ),
        (  # both have it during a rebalance
            [
                "1 ok assign 0 t=1",
                "2 ok assign 0 t=2",
                "0 ok send a",
                "1 ok consume a",
                "2 ok consume a t=31",
            ],
            "during a rebalance",
        ),
        (
            [
                *("1 ok assign 0", "0 ok send a", "1 ok consume a"),
                *("1 ok assign", "1 ok assign 0", "1 ok consume a"),
            ],
            "assigned anew",
        ),
    ],
)
def test_explained(ops: list[str], why: str | None) -> None:
    verdict = check_duplication(*ops)

    assert verdict.valid is True
    assert [finding.anomaly for finding in verdict.findings] == (
        [] if why is None else ["duplicate"]
    )
    assert all(why is not None and why in finding.detail for finding in verdict.findings)


@pytest.mark.parametrize(
    ("ops", "why"),
    [
        (
            ["0 ok send a", "1 ok consume a", "1 ok consume a"],
            "the same owner got it again, with no rebalance",
        ),
        (  # the members of the group are the same for longer than a rebalance takes
            [
                *(
                    "1 ok open node=c1 group=g t=1",
                    "2 ok open node=c2 group=g",
                    "0 ok send a t=100",
                ),
                *("1 ok consume a", "3 ok open node=c3 group=h", "1 ok consume a"),
            ],
            "the same owner got it again, with no rebalance",
        ),
        (["0 ok send a", "1 ok consume a", "1 ok consume a@0:1"], "2 copies of a send with 1"),
        (
            ["0 ok send a attempts=2"] + [f"1 ok consume a@{queue}:0" for queue in range(3)],
            "3 copies of a send with 2",
        ),
        # an assignment that leaves the queue where it was explains nothing
        (
            ["1 ok assign 0", "0 ok send a", "1 ok consume a", "1 ok assign 0 1", "1 ok consume a"],
            "the same owner got it again, with no rebalance",
        ),
        (
            ["1 ok assign 0", "0 ok send a", "1 ok consume a", "2 ok consume a"],
            "process 2 never had the queue",
        ),
        (  # both have it for longer than a rebalance takes
            [
                "1 ok assign 0 t=1",
                "2 ok assign 0 t=2",
                "0 ok send a",
                "1 ok consume a",
                "2 ok consume a t=33",
            ],
            "had the queue together for 31.000s",
        ),
        # one unexplained repeat among explained ones
        (
            ["0 ok send a", "1 info consume a", "1 ok consume a", "1 ok consume a"],
            "the same owner got it again, with no rebalance",
        ),
    ],
)
def test_unexplained(ops: list[str], why: str) -> None:
    verdict = check_duplication(*ops)

    [finding] = verdict.findings
    assert (verdict.valid, finding.anomaly) == (False, "duplicate_unexplained")
    assert why in finding.detail


@pytest.mark.parametrize(
    ("acked_s", "at_s", "valid"),
    [
        (1.0, 2.0, False),  # settled: each replica had it when the master acknowledged it
        (3.5, 2.0, True),  # the slave showed it before
        (3.5, 50.0, False),
    ],
)
def test_a_fault_of_the_master_explains_a_redelivery_to_the_same_owner(
    acked_s: float, at_s: float, valid: bool
) -> None:
    kill = fault("kill", "n0", at_s=at_s, healed_s=at_s + 1)
    ops = [
        "1 ok assign 0 t=0.5",
        "0 invoke send a t=1",
        "1 ok consume a t=1.5",
        "1 ok consume a t=4",
    ]
    ops.insert(2 if acked_s < 1.5 else 3, f"0 ok send a t={acked_s}")

    verdict = check_duplication(
        *ops, faults=(kill,), replica_sets={"b": ("n0", "n1")}, replication="sync"
    )

    assert verdict.valid is valid


@pytest.mark.parametrize(("again_s", "before"), [(12, 1.5), (22, 1.5), (22, 11)])
def test_a_slave_that_lags_sends_no_member_back(again_s: float, before: float) -> None:
    """Its master is away; whichever replica gave the message first, the master has what it acknowledged."""
    kill = fault("kill", "n0", at_s=10, healed_s=20)
    ops = [
        *("1 ok assign 0 t=0.5", "0 ok send a t=1"),
        *(f"1 ok consume a t={before}", f"1 ok consume a t={again_s}"),
    ]
    verdict = check_duplication(
        *ops, faults=(kill,), replica_sets={"b": ("n0", "n1")}, replication="async"
    )
    assert verdict.valid is False
    [finding] = verdict.findings
    assert "the same owner got it again" in finding.detail


def test_a_fault_that_did_not_bite_explains_nothing() -> None:
    blunt = fault("kill", "n0", at_s=2, healed_s=3, bitten=False)

    verdict = check_duplication(
        "0 ok send a t=1", "1 ok consume a", "1 ok consume a t=4", faults=(blunt,)
    )

    assert verdict.valid is False


GIVEN = ("1 ok assign 0 t=0.5", "0 ok send a t=1", "1 ok consume a t=2")


def sends_back(at_s: float, *answers: OffsetsReset, fault_id: str = "f") -> FaultFacts:
    reset = fault("offsets_reset", at_s=at_s, healed_s=at_s + 1)
    return replace(reset, fault_id=fault_id, resets=answers)


def answer(group: str = "g", offset: int = 0) -> OffsetsReset:
    at_ns = 5 * 10**9
    return OffsetsReset(
        group=group,
        topic="t",
        stream="b",
        asked_ns=at_ns,
        answered_ns=at_ns,
        offsets=((0, offset),),
    )


@pytest.mark.parametrize(
    ("faults", "valid"),
    [
        ((sends_back(5, answer()),), False),
        ((sends_back(5),), False),  # no answer of a leader is known
        ((sends_back(5, answer(), fault_id="f1"), sends_back(5.5, answer(), fault_id="f2")), True),
        ((sends_back(5, answer(), fault_id="f1"), sends_back(20, answer(), fault_id="f2")), False),
        ((sends_back(5, answer(), answer()),), True),
    ],
)
def test_a_reset_sends_an_owner_back_once(faults: tuple[FaultFacts, ...], valid: bool) -> None:
    once, twice = (*GIVEN, "1 ok consume a t=6"), ("1 ok consume a t=7",)
    assert check_duplication(*once, faults=faults).valid is True
    assert check_duplication(*once, *twice, faults=faults).valid is valid


def test_a_reset_is_left_for_what_nothing_else_explains() -> None:
    """A member that takes the queue over is given it once more: before or after the reset is carried out."""
    moved = ("1 ok assign t=6", "2 ok assign 0 t=6.1", "2 ok consume a t=6.2")
    known = {"faults": (sends_back(5, answer()),)}
    assert check_duplication(*GIVEN, *moved, "2 ok consume a t=7", **known).valid is True
    assert check_duplication(*GIVEN, "1 ok consume a t=5.5", *moved, **known).valid is True


@pytest.mark.parametrize("of", [answer(group="h"), answer(offset=1)])
def test_a_reset_of_another_group_or_to_a_later_offset_sends_none_back(of: OffsetsReset) -> None:
    again = (*GIVEN, "1 ok consume a t=6")
    mine = replace(answer(), offsets=((0, 1),))
    assert check_duplication(*again, faults=(sends_back(5, of, mine),)).valid is False


def test_who_never_had_the_queue_was_not_sent_back() -> None:
    lines = (*GIVEN, "2 ok consume a t=6")
    assert check_duplication(*lines, faults=(sends_back(5, answer()),)).valid is False


def test_bodies_without_a_key_are_not_one_message() -> None:
    assert check_duplication("1 ok consume ?@0:0", "1 ok consume ?@0:1").findings == ()


# Copies of a committed transaction: (broker, how many), with the attempts of its send; broker b started again.
@pytest.mark.parametrize(
    ("kind", "replication"), [("kill", "async"), ("kill", "sync"), ("split_name_servers", "sync")]
)
@pytest.mark.parametrize(
    ("copies", "attempts", "anomaly"),
    [
        ((("b", 2),), 1, "duplicate"),  # moved twice: it died before it had written that down
        ((("b", 2), ("c", 1)), 2, "duplicate"),  # and another attempt went to c
        ((("b", 2), ("c", 1)), 1, "duplicate_unexplained"),  # no attempt went to c
        ((("b", 1), ("c", 2)), 2, "duplicate_unexplained"),  # nothing happened to c
        ((("c", 2),), 1, "duplicate_unexplained"),
        ((("c", 2),), 2, "duplicate"),
    ],
)
def test_a_broker_that_died_may_have_moved_a_message_twice_and_no_other(
    copies: tuple[tuple[str, int], ...], attempts: int, anomaly: str, kind: str, replication: str
) -> None:
    assert anomalies_of_copies(copies, attempts, kind, replication) == [anomaly]


@pytest.mark.parametrize("replication", ["none", "async"])
def test_a_broker_that_stopped_gracefully_has_written_down_what_it_moved(replication: str) -> None:
    """With sync replication its copies may still wait for a follower."""
    found = anomalies_of_copies((("b", 2),), 1, "split_name_servers", replication)
    assert found == ["duplicate_unexplained"]


def anomalies_of_copies(
    copies: tuple[tuple[str, int], ...], attempts: int, kind: str, replication: str
) -> list[str]:
    half: dict[str, Any] = {
        "key": "a",
        "topic": "t",
        "transaction": "commit",
        "queue_offset": -1,
        "stored_at": 0,
    }
    half |= {"broker": "b", "queue": 0, "attempts": attempts}
    asked = {"key": "a", "topic": "t", "transaction": "commit"}
    values: list[tuple[str, OpType, int, dict[str, Any]]] = [
        ("send", "invoke", 1, asked),
        ("send", "ok", 1, half),
    ]
    for broker, times in copies:
        for offset in range(times):
            value: dict[str, Any] = {"group": "g", "topic": "t", "broker": broker, "queue": 0}
            value["messages"] = [["a", offset, offset, True, 0]]
            values.append(("consume", "ok", 9, value))
    ops = [
        Op(index=at, time_ns=at * 10**9, process=process, type=type_, f=f, value=value)
        for at, (f, type_, process, value) in enumerate(values)
    ]
    restarts = (fault(kind, "n0", at_s=1.5, healed_s=3.0),)
    replica_sets = {"b": ("n0",), "c": ("n1",)}
    known = facts(faults=restarts, replica_sets=replica_sets, replication=replication)
    verdict = next(
        of
        for of in check_run(ops, [], known, only("duplication")).verdicts
        if of.checker == "duplication"
    )
    return [finding.anomaly for finding in verdict.findings]


def test_copies_of_a_send_whose_attempts_are_not_known_make_the_answer_unknown() -> None:
    ops = history("0 ok send a", "1 ok consume a@0:0", "1 ok consume a@1:0")
    for op in ops:
        op.value.pop("attempts", None)
    verdict = next(of for of in check_run(ops, [], facts()).verdicts if of.checker == "duplication")
    assert (verdict.valid, verdict.counts["attempts_unknown"]) == ("unknown", 1)
    assert "nothing says how often their sends were tried" in str(verdict.reason)


def test_a_large_table_of_readers_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are numbered anew then; what is found stays the same, messages without a key included."""
    ops = ["0 ok send a", "1 ok consume a", "1 ok consume a@1:0", "2 ok consume a group=h"]
    with_table = check_duplication(*ops)
    monkeypatch.setattr(duplication, "CELLS_A_ROW", 0)
    assert check_duplication(*ops) == with_table
    assert len(with_table.findings) == 1


MEMBER_RETURNS = (
    *("1 ok open node=c1 group=g t=0.4", "1 ok assign 0 t=0.5"),
    *("0 ok send a t=1", "1 ok consume a", "1 ok commit 0:1 t=5"),
    *("3 ok open node=c1 group=g t=20", "3 ok assign 0 t=20.5", "3 ok consume a t=21"),
)


def test_a_broadcast_member_that_begins_below_what_it_has_saved_is_unexplained() -> None:
    # No broker has that offset, so no fault of one explains it.
    faults = (fault("kill", "n0", at_s=4.9, healed_s=19.0),)
    [finding] = check_duplication(*MEMBER_RETURNS, broadcasting=("g",), faults=faults).findings

    assert finding.anomaly == "duplicate_unexplained"
    assert "began below offset 1, which was committed before" in finding.detail


@pytest.mark.parametrize(
    "ops",
    [
        [op for op in MEMBER_RETURNS if "commit" not in op],
        [op.replace("1 ok commit", "2 ok commit") for op in MEMBER_RETURNS],
        [op.replace("0:1", "0:0") for op in MEMBER_RETURNS],
    ],
    ids=["saved nothing", "another member has saved it", "saved before"],
)
def test_a_broadcast_member_gets_again_what_it_has_not_saved(ops: list[str]) -> None:
    other = ("2 ok open node=c2 group=g t=0.1", "2 ok assign 0 t=0.2")
    [finding] = check_duplication(*other, *ops, broadcasting=("g",)).findings

    assert finding.anomaly == "duplicate"


@pytest.mark.parametrize(
    ("target", "anomaly"), [("c1", "duplicate"), ("n0", "duplicate_unexplained")]
)
def test_only_damage_to_its_own_disk_lets_a_broadcast_member_begin_anew(
    target: str, anomaly: str
) -> None:
    faults = (fault("power_cut", target, at_s=10.0, healed_s=19.0),)
    [finding] = check_duplication(*MEMBER_RETURNS, broadcasting=("g",), faults=faults).findings

    assert finding.anomaly == anomaly
