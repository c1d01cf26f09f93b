"""Send statuses weaker than SEND_OK: each needs a cause."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit
from staticfire.checkers.guarantees.verdict import Validity, Verdict
from staticfire.checkers.white_box.send_status import check_weak_statuses, weak_rows
from tests.checkers.white_box.test_replicas import ack
from tests.support import reference_copies
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import judged_by, read_ops

PAIR = {"b": ("n0", "n1")}
WEAK = "0 info send a error=FLUSH_SLAVE_TIMEOUT"


def check(*observations: dict[str, Any], op: str = WEAK, **changes: object) -> Verdict:
    known = facts(**{"replica_sets": PAIR, "replication": "sync", **changes})
    return judged_by("weak_statuses", history(op), observations, known)


@pytest.mark.parametrize(
    ("seen", "valid"),
    [
        (ack(durable="n0 n1"), False),
        (ack(durable="n0", cached="n1"), True),  # the slave has not flushed it: no SEND_OK
        (ack(durable="n0"), True),
        (ack(durable="n0", unobserved="n1"), True),  # perhaps it has it, perhaps not
    ],
)
def test_a_weak_status_needs_a_missing_copy(seen: dict[str, Any], valid: Validity) -> None:
    verdict = check(seen)

    assert verdict.valid is valid
    assert verdict.counts.get("spurious_weak_status", 0) == (valid is False)


@pytest.mark.parametrize(
    ("status", "replication", "valid"),
    [
        ("FLUSH_SLAVE_TIMEOUT", "none", False),
        ("SLAVE_NOT_AVAILABLE", "async", False),
        ("FLUSH_DISK_TIMEOUT", "none", True),
        ("FLUSH_SLAVE_TIMEOUT", "sync", True),
    ],
)
def test_a_status_of_followers_is_wrong_where_no_send_waits_for_one(
    status: str, replication: str, valid: Validity
) -> None:
    seen = ack(cached="n0", status=status)
    slow = fault("slow_disk", "n0", at_s=0, healed_s=1)
    op = f"0 info send a error={status}"
    verdict = check(seen, op=op, replication=replication, faults=(slow,))

    assert verdict.valid is valid


def test_near_a_fault_the_last_copy_may_come_too_late() -> None:
    partition = fault("partition", "n1", at_s=0, healed_s=1)
    verdict = check(ack(durable="n0 n1"), faults=(partition,))

    assert verdict.valid is True
    [finding] = verdict.findings
    assert (finding.judgement, finding.key) == ("informational", "a")


def test_a_fault_explains_nothing_once_the_broker_acknowledges_again() -> None:
    split = fault("split_name_servers", "n1", at_s=2, healed_s=5)
    again = "0 invoke send c t={}", "0 ok send c t=8"
    for began_s, judgement in ((4, "informational"), (6, "violation")):
        before = (again[0].format(began_s), again[1])
        assert weak_after(10, *before, faults=(split,)) == judgement


def test_a_fault_that_struck_once_explains_nothing_that_came_after_an_acknowledgement() -> None:
    slow = fault("partition", "n1", at_s=2, healed_s=30)
    assert weak_after(10, "0 invoke send c t=3", "0 ok send c t=4", faults=(slow,)) == "violation"


PAUSED = fault("pause", "n1", at_s=2, healed_s=30)
PAUSED_MASTER = fault("pause", "n0", at_s=2, healed_s=30)
SLOW = fault("slow_disk", "n1", at_s=2, healed_s=21)
SLOW_FOR_LONG = fault("slow_disk", "n1", at_s=2, healed_s=22)
FAILING = fault("failing_disk", "n0", at_s=2, healed_s=30)


@pytest.mark.parametrize(
    ("status", "took_s", "of", "judgement"),
    [
        ("FLUSH_SLAVE_TIMEOUT", 3.0, PAUSED, "informational"),
        ("FLUSH_SLAVE_TIMEOUT", 2.9, PAUSED, "violation"),  # the broker waits for 3 s
        ("FLUSH_DISK_TIMEOUT", 5.0, PAUSED_MASTER, "informational"),
        ("FLUSH_DISK_TIMEOUT", 4.9, PAUSED_MASTER, "violation"),
        ("FLUSH_DISK_TIMEOUT", 5.0, PAUSED, "violation"),  # its own disk is not the slave's
        ("FLUSH_DISK_TIMEOUT", 0.1, FAILING, "informational"),  # all that wait are answered
        ("FLUSH_SLAVE_TIMEOUT", 0.1, FAILING, "violation"),
        ("SLAVE_NOT_AVAILABLE", 0.1, PAUSED, "informational"),
        ("SLAVE_NOT_AVAILABLE", 0.1, SLOW, "violation"),
        (
            "SLAVE_NOT_AVAILABLE",
            0.1,
            SLOW_FOR_LONG,
            "informational",
        ),  # the slave was silent for 20 s
        ("SLAVE_NOT_AVAILABLE", 0.1, FAILING, "informational"),
    ],
)
def test_each_status_has_faults_of_its_own(
    status: str, took_s: float, of: FaultFacts, judgement: str
) -> None:
    ops = ("0 ok send b t=1", *weak(status, 10, took_s))
    assert judged_as(status, ops, of) == judgement


@pytest.mark.parametrize(
    ("acked_s", "judgement"),
    [
        ((), "informational"),
        ((9.5,), "informational"),  # it may have been stored before
        (
            (12.5,),
            "informational",
        ),  # what was answered at 15.6 s was stored at 12.6 s, perhaps later
        ((13.5, 14.5), "informational"),  # it may have been answered at 13 s
        ((12.5, 14.0), "violation"),
    ],
)
def test_what_was_stored_later_is_not_safe_before_it(
    acked_s: tuple[float, ...], judgement: str
) -> None:
    """A send from 10 s to 16 s; others begin meanwhile, and have SEND_OK 100 ms later."""
    timed = [
        line
        for number, at_s in enumerate((1.0, *acked_s))
        for line in (
            (at_s, f"2 invoke send c{number} t={at_s}"),
            (at_s + 0.1, f"2 ok send c{number} t={at_s + 0.1:.1f}"),
        )
    ]
    late = weak("FLUSH_SLAVE_TIMEOUT", 10, 6)
    ops = [line for _, line in sorted([*timed, (10.0, late[0]), (16.0, late[1])])]
    assert judged_as("FLUSH_SLAVE_TIMEOUT", ops, SLOW) == judgement


def weak(status: str, began_s: float, took_s: float) -> tuple[str, str]:
    return (
        f"0 invoke send a t={began_s}",
        f"0 info send a error={status} t={began_s + took_s:.1f}",
    )


def judged_as(status: str, ops: Iterable[str], *faults: FaultFacts) -> str:
    """How key a is judged, by all rows of the history and by the few that `weak_rows` picks."""
    columns, context = read_ops(
        history(*ops),
        [ack(durable="n0 n1", status=status)],
        replica_sets=PAIR,
        replication="sync",
        faults=faults,
    )
    verdict = check_weak_statuses(columns, context)
    few = check_weak_statuses(weak_rows(columns, context), context)
    assert (few.findings, few.reportable) == (verdict.findings, verdict.reportable)
    [finding] = verdict.findings
    return finding.judgement


def weak_after(began_s: float, *before: str, **changes: object) -> str:
    """How a weak status of a broker that has acknowledged before is judged."""
    ops = ("0 ok send b t=1", *before, f"0 invoke send a t={began_s}", f"{WEAK} t={began_s + 1}")
    known = facts(replica_sets=PAIR | {"c": ("n2",)}, replication="sync", **changes)
    [finding] = judged_by("weak_statuses", history(*ops), [ack(durable="n0 n1")], known).findings
    return finding.judgement


@pytest.mark.parametrize(
    ("struck", "healed_s", "judgement"),
    [
        ("n1", 4, "informational"),  # the slave follows again when the send is stored
        ("n0", 4, "informational"),
        ("n2", 60, "violation"),  # of another broker name
    ],
)
def test_a_broker_restarts_to_ask_other_name_servers(
    struck: str, healed_s: float, judgement: str
) -> None:
    split = fault("split_name_servers", struck, at_s=2, healed_s=healed_s)
    assert weak_after(10, faults=(split,)) == judgement


@pytest.mark.parametrize(
    ("node", "began_s", "judgement"),
    [
        ("n1", 32, "informational"),  # back after 10 s, and replication goes on 20 s later
        ("n1", 32.1, "violation"),
        ("n2", 10, "violation"),
    ],
)
def test_a_node_that_ended_by_itself_follows_later(
    node: str, began_s: float, judgement: str
) -> None:
    ended = NodeExit(node=node, time_ns=2 * 10**9, error="OSError")
    assert weak_after(began_s, exits=(ended,)) == judgement


def test_what_was_not_observed_is_unknown() -> None:
    assert (check().valid, check().reason) == ("unknown", "1 not observed")


@pytest.mark.parametrize("op", ["0 ok send a", "0 info send a", "0 fail send a"])
def test_other_ends_are_not_asked_for(op: str) -> None:
    assert check(ack(durable="n0 n1"), op=op).valid is True


def test_the_first_sends_of_a_broker_may_meet_slaves_that_are_coming_up() -> None:
    def counted(*ops: str) -> set[str]:
        known = facts(replica_sets=PAIR, replication="sync")
        verdict = judged_by("weak_statuses", history(*ops), [ack(durable="n0 n1")], known)
        return {finding.judgement for finding in verdict.findings}

    assert counted(WEAK, "0 ok send b") == {"informational"}
    assert counted("0 ok send b", WEAK) == {"violation"}


KNOWN = ack(durable="n0 n1", key="b", end_offset=1000)
NOT_THERE = "SLAVE_NOT_AVAILABLE"


def judged(*ops: str, seen: tuple[dict[str, Any], ...]) -> list[str]:
    """Of key a, where slaves count as not there once they lack 500 bytes."""
    known = facts(replica_sets=PAIR, replication="sync", follower_behind_max_bytes=500)
    verdict = judged_by("weak_statuses", history(*ops), seen, known)
    return [finding.judgement for finding in verdict.findings if finding.key == "a"]


WAITED_FOR = "FLUSH_SLAVE_TIMEOUT"
SINCE_IT_BEGAN = {"time_ns": 2 * 10**9 + 1}


@pytest.mark.parametrize(
    ("before", "seen", "judgement"),
    [
        ({}, {"end_offset": 1500}, "informational"),
        ({}, {"end_offset": 1499}, "violation"),
        ({}, {"end_offset": 1500, "status": WAITED_FOR}, "violation"),
        ({"durable_on": ["n0"]}, {"end_offset": 1500}, "violation"),  # nothing is known: no excuse
        ({"end_offset": None}, {"end_offset": 1500}, "violation"),
        ({"broker_name": "c"}, {"end_offset": 1500}, "violation"),
        (SINCE_IT_BEGAN, {"end_offset": 1500}, "violation"),
    ],
)
def test_slaves_may_have_been_too_far_behind(
    before: dict[str, Any], seen: dict[str, Any], judgement: str
) -> None:
    late = ack(durable="n0 n1", **{"status": NOT_THERE, **seen})
    ops = ("0 ok send b t=1", "0 invoke send a t=2", f"0 info send a error={late['status']} t=3")

    assert judged(*ops, seen=({**KNOWN, **before}, late)) == [judgement]


def test_a_batch_is_stored_at_once() -> None:
    """What was stored with the first message counts against its slaves, too."""
    first, last = (
        ack(durable="n0 n1", key=key, status=NOT_THERE, end_offset=end)
        for key, end in (("a", 1100), ("z", 1500))
    )
    began = ("0 invoke send a t=2", "0 invoke send z t=2")
    ended = (f"0 info send {key} error={NOT_THERE} t=3" for key in "az")

    assert judged("0 ok send b t=1", *began, *ended, seen=(KNOWN, first, last)) == ["informational"]


@pytest.mark.parametrize(("began_s", "judgement"), [(10.9, "informational"), (11, "violation")])
def test_what_was_acknowledged_weaker_is_known_once_slaves_have_reported(
    began_s: float, judgement: str
) -> None:
    ops = (
        *("0 ok send b t=0", f"0 info send c error={NOT_THERE} t=1"),
        *(f"0 invoke send a t={began_s}", f"0 info send a error={NOT_THERE} t={began_s + 1}"),
    )
    weaker = ack(durable="n0 n1", key="c", status=NOT_THERE, end_offset=1400, time_ns=10**9)
    late = ack(durable="n0 n1", status=NOT_THERE, end_offset=1600, time_ns=12 * 10**9)

    assert judged(*ops, seen=(KNOWN, weaker, late)) == [judgement]


@pytest.mark.parametrize(
    ("sent_s", "began_s", "status", "judgement"),
    [
        (4.0, 16, NOT_THERE, "violation"),
        (2.5, 16, NOT_THERE, "informational"),  # the fault was not over when it was sent
        (4.0, 14.9, NOT_THERE, "informational"),  # its slave has not reported it yet
        (4.0, 16, WAITED_FOR, "informational"),  # the slave may be slow
    ],
)
def test_a_slave_that_has_reported_a_message_is_there(
    sent_s: float, began_s: float, status: str, judgement: str
) -> None:
    """A weaker status at 5 s, of a message that the slave holds, and another one after the slave has reported it."""
    ops = (
        *("0 ok send b t=1", f"1 invoke send c t={sent_s}", f"1 info send c error={NOT_THERE} t=5"),
        *(f"0 invoke send a t={began_s}", f"0 info send a error={status} t={began_s + 3}"),
    )
    seen = (
        ack(durable="n0 n1", key="c", status=NOT_THERE, time_ns=5 * 10**9),
        ack(durable="n0 n1", status=status, time_ns=19 * 10**9),
    )
    cut = fault("partition", "n1", at_s=2, healed_s=3)
    known = facts(replica_sets=PAIR, replication="sync", faults=(cut,))
    found = judged_by("weak_statuses", history(*ops), seen, known).findings

    assert [of.judgement for of in found if of.key == "a"] == [judgement]


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_slaves_that_come_and_go_are_judged_as_the_reference_judges(seed: int) -> None:
    random = Random(seed)
    ops, seen = ["0 ok send ok t=0.5"], [ack(durable="n0 n1", key="ok")]
    for number in range(8):
        at_s, key = 3 + 4 * number, f"k{number}"
        status = random.choice([NOT_THERE, NOT_THERE, NOT_THERE, WAITED_FOR])
        ops += [f"0 invoke send {key} t={at_s}", f"0 info send {key} error={status} t={at_s + 3}"]
        on = random.choice(["n0 n1", "n0 n1", "n0"])
        seen.append(ack(durable=on, key=key, status=status, time_ns=(at_s + 3) * 10**9))
    known: dict[str, Any] = {
        "replica_sets": PAIR,
        "replication": "sync",
        "flush": "sync",
        "mode": "hardened",
        "transient_pool": False,
        "follower_behind_max_bytes": 10**9,
        "exits": (),
        "faults": tuple(
            fault(kind, random.choice(["n0", "n1"]), at_s=at_s, healed_s=at_s + random.randrange(9))
            for kind in random.sample(["pause", "partition", "kill", "split_name_servers"], 2)
            for at_s in [random.randrange(1, 20)]
        ),
    }
    expected = reference_copies.weak(history(*ops), seen, known)
    found = judged_by("weak_statuses", history(*ops), seen, facts(**known)).findings

    wrong = {finding.key for finding in found if finding.judgement == "violation"}
    assert wrong == set(expected.wrong)
