"""Producers whose sends all fail although no fault affects them. Times are seconds; the bound is 12 s."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.availability.stuck_producers import (
    check_stuck_producers,
    first_rows,
    rows_again,
)
from staticfire.checkers.guarantees.facts import FaultFacts, Timings
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.verdicts.compose import check_run
from tests.support import reference_waits
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import judged_by, read_ops

BROKERS = {"a": ("n2",), "b": ("n0", "n1")}
WEAK = "info error=FLUSH_SLAVE_TIMEOUT"


def sends(*ends: str, node: str = "p1", since_s: float = 100, each_s: float = 4) -> list[str]:
    """One send after the other; each takes as long as there is until the next."""
    process = int(node[1:])
    ops = []
    for number, end in enumerate(ends):
        type, _, error = end.partition(" ")
        key, at_s = f"{node}x{number}", since_s + number * each_s
        ops.append(f"{process} invoke send {key} node={node} t={at_s}")
        ops.append(
            f"{process} {type} send {key} node={node} t={at_s + each_s - 0.1} {error}".strip()
        )
    return ops


def verdict_of(ops: list[str], *faults: FaultFacts, **known: object) -> Verdict:
    known = {"producers": ("p1", "p2"), "replica_sets": BROKERS, **known}
    return judged_by("stuck_producers", history(*ops), [], facts(faults=faults, **known))


def is_stuck(ops: list[str], *faults: FaultFacts, **known: object) -> bool:
    return bool(verdict_of(ops, *faults, **known).counts.get("producer_stuck"))


def test_it_names_the_producer_the_time_and_a_broker() -> None:
    struck = fault("kill", "n2", at_s=90, healed_s=None)
    twice = "fail attempts=2", "info attempts=2"
    verdict = verdict_of(sends("ok", *twice, *twice), struck)
    [finding] = verdict.findings
    assert verdict.valid is False
    assert (finding.anomaly, finding.key, finding.time_ns) == (
        "producer_stuck",
        "p1x1",
        104_000_000_000,
    )
    assert finding.detail == (
        "p1 got no SEND_OK for 15.900s, in 4 sends, and no fault was in its way to b"
    )


@pytest.mark.parametrize(
    ("ends", "stuck"),
    [
        (("fail", "fail", "fail", "fail"), True),
        ((WEAK, WEAK, WEAK, WEAK), True),  # it asked for more
        (("fail", "fail", "fail"), False),  # too few
        (("fail", "fail", "ok", "fail", "fail"), False),
        (("fail", "fail", "fail", "ok"), False),
    ],
)
def test_four_sends_in_a_row(ends: tuple[str, ...], stuck: bool) -> None:
    assert is_stuck(sends(*ends)) is stuck


@pytest.mark.parametrize(("each_s", "stuck"), [(2.9, False), (3.1, True)])
def test_it_takes_four_requests(each_s: float, stuck: bool) -> None:
    assert is_stuck(sends(*["fail"] * 4, each_s=each_s)) is stuck


def test_sends_of_another_producer_do_not_help() -> None:
    other = sends("ok", "ok", "ok", "ok", node="p2", since_s=100.05)
    mine = sends("fail", "fail", "fail", "fail")
    assert is_stuck(sorted(mine + other, key=lambda op: float(op.split("t=")[1].split()[0])))


def test_a_half_message_that_is_stored_got_through() -> None:
    ops = history(*sends("fail", "fail", "info", "fail", "fail"))
    stored = {"broker": "b", "queue": 0, "transaction": "commit", "queue_offset": -1}
    ops[5] = replace(ops[5], value={**ops[5].value, **stored})
    known = facts(producers=("p1",), replica_sets=BROKERS)
    verdicts = check_run(ops, [], known).verdicts
    assert all("producer_stuck" not in verdict.counts for verdict in verdicts)


@pytest.mark.parametrize(
    ("of", "stuck"),
    [
        (fault("kill", "n0", at_s=90, healed_s=120), True),  # broker a takes sends
        (fault("kill", "n0", "n2", at_s=90, healed_s=120), False),
        (fault("kill", "n0", "n2", at_s=10, healed_s=60), True),  # over for 40 s
        (fault("kill", "n0", "n2", at_s=10, healed_s=75), False),  # and for 25 s, a little less
        (fault("kill", "n0", "n2", at_s=90, healed_s=120, bitten=False), True),
        (fault("pause", "p1", at_s=90, healed_s=120), False),
        (fault("pause", "p2", at_s=90, healed_s=120), True),
        (fault("kill", "ns-1", at_s=40, healed_s=60), False),  # brokers register again
        (fault("clock_skew", "n0", "n2", at_s=90, healed_s=120), True),
    ],
)
def test_a_fault_counts_that_is_in_the_way_to_every_broker(of: FaultFacts, stuck: bool) -> None:
    twice = sends(*["fail attempts=2"] * 4)
    assert is_stuck(twice, of, coordinators=("ns-1",)) is stuck


@pytest.mark.parametrize(
    ("opened_s", "restarted_s", "stuck"),
    [
        (1, None, True),  # it knows the routes
        (45, None, False),
        (33, None, True),
        (35, None, False),  # it may still ask
        (105, None, False),  # brokers register again, and it asks
        (1, 30, False),  # the leaders start, too
        (1, 0, False),
    ],
)
def test_a_fault_of_a_coordinator_is_in_the_way_of_a_start(
    opened_s: int, restarted_s: int | None, stuck: bool
) -> None:
    ops = [f"50 ok open node=p1 t={opened_s}", *sends(*["fail attempts=2"] * 4)]
    faults = [fault("name_server_freeze", "ns-1", at_s=40, healed_s=60)]
    if restarted_s is not None:
        faults.append(fault("kill", "n0", "n2", at_s=restarted_s, healed_s=restarted_s + 1))
    assert is_stuck(ops, *faults, coordinators=("ns-1", "ns-2")) is stuck


@pytest.mark.parametrize(("again_s", "stuck"), [(200, True), (45, False)])
def test_a_producer_starts_again_after_an_unclear_send(again_s: int, stuck: bool) -> None:
    """It goes on under another process number, as a new client. Long after the freeze it must find a route."""
    unclear = ["1 invoke send p1y node=p1 t=30", "1 info send p1y node=p1 t=31 attempts=2"]
    again = [f"9 invoke send p9x0 node=p1 t={again_s}", f"9 fail send p9x0 node=p1 t={again_s + 3}"]
    failing = [
        one.replace("1 ", "9 ", 1).replace("p1x", "p9y", 1)
        for one in sends(*["fail attempts=2"] * 5, since_s=again_s + 4)
    ]
    ops = ["50 ok open node=p1 t=1", *unclear, *again, *failing]
    faults = [fault("name_server_freeze", "ns-1", at_s=40, healed_s=60)]
    assert is_stuck(ops, *faults, coordinators=("ns-1", "ns-2")) is stuck


def test_a_broker_without_a_master_takes_nothing() -> None:
    lost = replace(fault("disk_lost", "n0", "n2", at_s=10, healed_s=20), permanent=True)
    assert is_stuck(sends(*["fail"] * 4), lost)
    assert not is_stuck(sends(*["fail"] * 4), lost, living=())


@pytest.mark.parametrize("attempts", [1, None])
def test_one_attempt_may_have_gone_to_the_broker_that_is_away(attempts: int | None) -> None:
    away = fault("kill", "n0", at_s=90, healed_s=120)
    end = "fail" if attempts is None else f"fail attempts={attempts}"
    assert not is_stuck(sends(*[end] * 4), away)
    assert is_stuck(sends(*[end] * 4))


def test_what_began_behind_a_fault_is_counted_from_there() -> None:
    struck = fault("kill", "n0", "n2", at_s=60, healed_s=80)  # until 106 s
    assert not is_stuck(sends(*["fail"] * 5), struck)
    assert is_stuck(sends(*["fail"] * 6), struck)


ENDS = st.lists(st.sampled_from(["ok", "fail", "fail", "info", WEAK]), max_size=12)


@pytest.mark.slow
@given(ENDS, st.sampled_from([2.0, 3.5, 5.0]))
def test_it_finds_what_the_reference_finds_and_from_few_rows(
    ends: list[str], each_s: float
) -> None:
    ops = history(*sends(*ends, each_s=each_s))
    columns, context = read_ops(ops, producers=("p1",), replica_sets=BROKERS)
    verdict = check_stuck_producers(columns, context)
    expected = reference_waits.stuck(ops, ("p1",))
    assert verdict.counts.get("producer_stuck", 0) == len(expected)

    gathered = first_rows(columns, context)
    few = rows_again(columns, context, gathered)
    assert check_stuck_producers(few, context) == verdict


def refusals(count: int, *, each_s: float = 2, end: str = "fail", **how: object) -> list[str]:
    """A send that is served and one that is refused, again and again."""
    ends = [one for _ in range(count) for one in ("ok", f"{end} attempts=1")]
    return sends(*ends, each_s=each_s / 2, **how)  # type: ignore[arg-type]  # as it takes them


def is_refused(ops: list[str], *faults: FaultFacts, **known: object) -> bool:
    return bool(verdict_of(ops, *faults, **known).counts.get("refused_at_rest"))


def test_refusals_at_rest_are_reported_with_the_first() -> None:
    verdict = verdict_of(refusals(12))
    [finding] = verdict.findings
    assert verdict.valid is False
    assert (finding.anomaly, finding.key) == ("refused_at_rest", "p1x1")
    assert finding.detail == (
        "sends of p1 were refused, not answered, or tried again, in 12 seconds of the next 60, and no fault was near"
    )


@pytest.mark.parametrize(
    ("ops", "refused"),
    [
        (refusals(10), True),
        (refusals(9), False),
        (refusals(10, each_s=6.4), True),
        (refusals(10, each_s=7), False),  # ten in more than a minute
        (refusals(40, each_s=0.2), False),  # in 8 s: busy for a moment
        (refusals(10, end="info"), False),  # 1 s is too early to say that no answer came
        (refusals(10, end="info", each_s=6.2), True),
        ([line.replace("attempts=1", "attempts=2") for line in refusals(10, end="info")], True),
        ([line.replace("attempts=1", "attempts=2") for line in refusals(10, end="ok")], True),
        (refusals(10, end="ok"), False),
        (refusals(10, node="p3"), False),  # no producer of the load
        ([line.replace(" attempts=1", "") for line in refusals(10)], False),  # nothing was sent
    ],
)
def test_ten_seconds_of_a_minute_with_refusals(ops: list[str], refused: bool) -> None:
    assert is_refused(ops) is refused


@pytest.mark.parametrize(
    ("of", "refused"),
    [
        (fault("kill", "n0", at_s=130, healed_s=140), False),
        (fault("kill", "elsewhere", at_s=130, healed_s=140), False),  # perhaps a server
        (fault("kill", "p2", at_s=130, healed_s=140), True),  # another client
        (fault("kill", "p1", at_s=130, healed_s=140), False),
        (fault("topic_change", at_s=130, healed_s=140), False),
        (fault("topic_anew", at_s=130, healed_s=140), True),  # harmless
        (fault("slow_consumer", "n0", at_s=130, healed_s=140), True),
        (fault("bit_rot", "n0", at_s=130, healed_s=140), False),
        (fault("kill", "n0", at_s=62, healed_s=70), False),
        (fault("kill", "n0", at_s=50, healed_s=60), True),  # registered and known again after 60 s
        (fault("pause", "n0", at_s=10, healed_s=20), False),  # remembered for 120 s
        (fault("partition", "n0", at_s=10, healed_s=20), False),
        (fault("pause", "n0", at_s=0, healed_s=1), True),
        (fault("kill", "n0", at_s=500, healed_s=None), True),
    ],
)
def test_a_fault_of_a_server_or_of_the_producer_is_no_rest(of: FaultFacts, refused: bool) -> None:
    known = {"consumers": ("c1",), "producers": ("p1", "p2")}
    assert is_refused(refusals(12, since_s=122), of, **known) is refused


def test_a_transaction_may_be_rolled_back() -> None:
    ops = history(*refusals(12))
    ops = [replace(op, value={**op.value, "transaction": "rollback"}) for op in ops]
    known = facts(producers=("p1",), replica_sets=BROKERS)
    verdicts = check_run(ops, [], known).verdicts
    assert all("refused_at_rest" not in verdict.counts for verdict in verdicts)


@pytest.mark.parametrize(
    ("ops", "weak"),
    [
        (refusals(10, end=WEAK), True),
        (refusals(9, end=WEAK), False),
        (refusals(10, end=WEAK, each_s=7), False),  # ten in more than a minute
        (refusals(40, end=WEAK, each_s=0.2), False),  # in 8 s: busy for a moment
        (refusals(10, end="fail"), False),
    ],
)
def test_ten_seconds_of_a_minute_with_weaker_statuses(ops: list[str], weak: bool) -> None:
    verdict = verdict_of(ops)
    assert bool(verdict.counts.get("weak_at_rest")) is weak
    if weak:
        [finding] = verdict.findings
        assert finding.detail == (
            "sends of p1 were answered with a weaker status in 10 seconds of the next 60, and no fault was near"
        )


@pytest.mark.parametrize(
    ("behind_max", "weak"), [(256 << 20, True), (17 << 20, True), (16 << 20, False), (5000, False)]
)
def test_a_broker_need_not_wait_for_slaves_that_may_be_far_behind(
    behind_max: int, weak: bool
) -> None:
    verdict = verdict_of(refusals(10, end=WEAK), follower_behind_max_bytes=behind_max)
    assert bool(verdict.counts.get("weak_at_rest")) is weak


def test_weaker_statuses_near_any_fault_are_the_business_of_other_checkers() -> None:
    killed = fault("kill", "n0", at_s=130, healed_s=140)
    assert not verdict_of(refusals(12, end=WEAK, since_s=122), killed).counts.get("weak_at_rest")


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(["ok", "fail attempts=1", "info attempts=1", "fail", WEAK]), max_size=40
    ),
    st.sampled_from([1.0, 3.2, 4.0]),
)
def test_refusals_are_those_of_the_reference(ends: list[str], each_s: float) -> None:
    lines = sends(*ends, each_s=each_s)
    ops = history(*lines)
    columns, context = read_ops(ops, producers=("p1",), replica_sets=BROKERS)
    verdict = check_stuck_producers(columns, context)
    for reference in (reference_waits.refused, reference_waits.weak):
        anomaly = f"{reference.__name__}_at_rest"
        assert verdict.counts.get(anomaly, 0) == len(reference(ops, ("p1",)))


TIMED = {"timings": Timings(send_s=3.0)}


@pytest.mark.parametrize(
    ("each_s", "end", "known", "overdue"),
    [
        (6.2, "fail", TIMED, True),
        (6.2, "ok", TIMED, True),
        (6.2, "info", TIMED, True),
        (6.0, "fail", TIMED, False),
        (6.2, "fail", {}, False),  # another client, of which it is not known
        (6.2, "fail", {**TIMED, "disks_observed": False}, False),  # real machines are busy
        (12.2, "fail", {**TIMED, "disks_observed": False}, True),
        (12.2, "fail", {**TIMED, "producers": ("p2",)}, False),  # the warm-up of the harness
    ],
)
def test_a_send_ends_in_its_time(
    each_s: float, end: str, known: dict[str, object], overdue: bool
) -> None:
    verdict = verdict_of(sends("ok", end, each_s=each_s)[2:], **known)
    assert bool(verdict.counts.get("overdue_send")) is overdue
    if overdue:
        [finding] = verdict.findings
        assert verdict.valid is False
        assert finding.detail == f"a send of p1 took {each_s - 0.1:.3f}s; its client gives it 3 s"


@pytest.mark.parametrize(
    ("struck", "overdue"),
    [
        (fault("pause", "p1", at_s=101, healed_s=104), False),
        (fault("pause", "p2", at_s=101, healed_s=104), True),
        (fault("pause", "n0", at_s=101, healed_s=104), True),  # the client has its time to itself
        (fault("pause", "p1", at_s=80, healed_s=90), True),
    ],
)
def test_only_a_producer_that_is_held_up_may_take_longer(struck: FaultFacts, overdue: bool) -> None:
    verdict = verdict_of(sends("fail", each_s=7), struck, **TIMED)
    assert bool(verdict.counts.get("overdue_send")) is overdue


@pytest.mark.parametrize("taken_s", [4.0, 7.0])
def test_overdue_sends_are_among_the_rows_of_a_large_history(taken_s: float) -> None:
    ops = history(*sends("ok", "ok", each_s=taken_s))
    columns, context = read_ops(ops, producers=("p1",), replica_sets=BROKERS, **TIMED)
    few = rows_again(columns, context, first_rows(columns, context))
    assert check_stuck_producers(few, context) == check_stuck_producers(columns, context)
    found = check_stuck_producers(columns, context).counts.get("overdue_send", 0)
    assert found == len(reference_waits.overdue(ops, ("p1",), 3.0))
