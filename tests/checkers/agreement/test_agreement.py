"""Contradictory evidence: the verdict is never valid, and one sentence names the disagreement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from staticfire.checkers.agreement.agreement import AGREEMENT
from staticfire.checkers.agreement.short_logs import short_logs
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import AffectedTarget, FaultFacts, NodeExit, RottenRecord
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.verdicts.compose import check_run
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated
from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.model import Run
from tests.checkers.mutations.score import kinds_named
from tests.support.chunked_kernels import check_chunks
from tests.support.history_language import facts, fault, history, queues_confirmed
from tests.support.one_checker import judged_by, only, read_ops

GAP = ["0 ok send a@0:0", "0 ok send b@0:2"]
S = 1_000_000_000
SIMULATED = {"time_s": 6.0, "acks_min": 1, "flush": "sync", "replication": "sync"}


def struck(node: str, start_s: float, end_s: float) -> AffectedTarget:
    return AffectedTarget(node=node, start_ns=round(start_s * S), end_ns=round(end_s * S))


def recovery(node: str, at_s: float) -> dict[str, Any]:
    return {"kind": "recovery", "time_ns": round(at_s * S), "node": node, "end_offset": 0}


def simulated(**options: Any) -> Run:
    result = run_simulated(draw_campaign(3, {**SIMULATED, **options}))
    return Run("queue", 3, result.ops, result.observations, result.facts)


@pytest.fixture(scope="module")
def run() -> Run:
    return simulated(faults=())


@pytest.fixture(scope="module")
def run_with_kills() -> Run:
    return simulated(faults=("kill",))


def verdict_of(run: Run) -> Verdict:
    return judged_by("agreement", run.ops, run.observations, run.facts)


@pytest.mark.slow
def test_runs_agree(run: Run, run_with_kills: Run) -> None:
    for of in (run, run_with_kills):
        assert verdict_of(of).valid is True
        counts = verdict_of(of).counts
        assert {name for name, count in counts.items() if count} <= {"unplaced", "begun"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            "look_up_not_asked",
            "1 acknowledged messages of brokers that were asked for all of theirs",
        ),
        ("nothing_searched", "and for none of them by time"),
        ("drain_begins_later", "begins at 5, and"),
        ("queue_renumbered", "are of queues that their topic does not have"),
        ("strange_assignment", "the history has queue 77 of"),
        ("slave_entries_fewer", "have the same log, and"),
        ("difference_without_first", "1 listed places, and the first difference is none"),
        ("seen_with_other_status", "1 sends have another status"),
        ("seen_to_end_later", "lie within the record of another one"),
        ("stored_at_one_place", "lie within the record of another one"),
        ("within_other_record", "lie within the record of another one"),
        ("recovered_too_far", "lie below the end of the log that their broker had recovered"),
        ("recoveries_unobserved", "ever opened its store"),
        ("call_without_beginning", "by an op that ended and has no invocation"),
        ("offset_skipped", "drains have read 1 positions of queues at which no message was"),
    ],
)
def test_one_wrong_in_a_valid_run_is_unknown(run: Run, kind: str, words: str) -> None:
    (mutation,) = kinds_named((kind,))
    planted = mutation.plant(run, Random(kind), "rest")
    assert planted is not None

    verdict = verdict_of(planted)

    assert verdict.valid == "unknown"
    assert verdict.reason is not None
    assert words in verdict.reason
    assert check_run(planted.ops, planted.observations, planted.facts).valid is not True


@pytest.mark.slow
def test_a_restart_without_a_recovery(run_with_kills: Run) -> None:
    (mutation,) = kinds_named(("restart_unobserved",))
    planted = mutation.plant(run_with_kills, Random(1), "fault")
    assert planted is not None

    reason = verdict_of(planted).reason

    assert reason is not None
    assert reason.startswith("fault ")
    assert reason.endswith("and nothing says that it opened its store again")


@pytest.mark.parametrize(
    ("ones", "reason"),
    [
        ((), "stopped n1"),
        ((struck("n0", 1, 3), struck("n1", 3, 5)), "stopped n1"),
        ((struck("n0", 1, 3),), None),  # n1 was left out
    ],
)
def test_a_restart_of_some_of_its_targets(
    ones: tuple[AffectedTarget, ...], reason: str | None
) -> None:
    opened = [recovery("n0", 0.5), recovery("n1", 0.5), recovery("n0", 2.5)]
    stop = replace(fault("rolling_restart", "n0", "n1", at_s=1, healed_s=5), struck=ones)
    known = facts(replica_sets={"b": ("n0", "n1")}, faults=(stop,), due=("recovery",))
    ops = history("0 ok send a", "1 ok consume a", "9 ok drain 0:1:1")

    found = judged_by("agreement", ops, opened, known).reason

    assert (found is None) == (reason is None)
    assert reason is None or reason in (found or "")


def test_a_stamp_of_the_future_names_its_client() -> None:
    seen = [{"kind": "future_stamp", "time_ns": 5, "node": "producer-1", "ahead_ms": 3_600_000}]
    ops = history("0 ok send a", "1 ok consume a", "9 ok drain 0:1:1")
    found = judged_by("agreement", ops, seen, facts())

    assert (found.valid, found.reason) == (
        "unknown",
        "producer-1 says that an event happened 3600 s after the harness had read it: its stamps prove nothing",
    )


@pytest.mark.parametrize(
    ("known", "is_explained"),
    [
        ({}, False),
        ({"faults": (fault("kill", "n0", at_s=19, healed_s=21),)}, True),
        ({"faults": (fault("kill", "n1", at_s=19, healed_s=21),)}, False),  # another node
        ({"faults": (fault("pause", "n0", at_s=21, healed_s=22),)}, False),  # later
        ({"exits": (NodeExit(node="n0", time_ns=19 * S, error=""),)}, True),
        ({"due": ()}, True),  # not every start was written down
    ],
)
def test_a_start_of_a_broker_has_a_reason(known: dict[str, Any], is_explained: bool) -> None:
    ops = history("0 ok send a", "1 ok consume a", "9 ok drain 0:1:1")
    opened = [recovery("n0", 0.5), recovery("n0", 20)]

    reason = judged_by("agreement", ops, opened, facts(**{"due": ("recovery",), **known})).reason

    reported = "n0 opened its store again at 20.000 s, and no fault or exit says why"
    assert (reason == reported) is not is_explained


@pytest.mark.parametrize("after_the_drain", [False, True])
def test_a_send_acknowledged_during_the_look_ups_is_not_asked_for(
    run: Run, after_the_drain: bool
) -> None:
    draft = Draft(run)
    first = next(op.value["broker"] for op in run.ops if op.f == "look_up")
    acknowledged = (op for op in run.ops if op.f == "send" and op.type == "ok")
    last = max(op.index for op in acknowledged if op.value["broker"] == first)
    draft.look_up(run.ops[last].value["key"], lambda _: None)
    if after_the_drain:
        for op in run.ops:
            if op.f == "drain":
                draft.move(op.index, run.ops[last].time_ns - 1)

    assert verdict_of(draft.finish()).valid is (True if after_the_drain else "unknown")


def test_what_is_not_recorded_is_not_asked(run: Run) -> None:
    """A history of an earlier version, or of another harness."""
    draft = Draft(run)
    for op in run.ops:
        if op.f == "look_up":
            rows = op.value["messages"][1:]
            draft.alter(op.index, messages=rows, asked=None, searched=None)
    draft.observe(lambda seen: seen["kind"] in ("recovery", "topic_route"), lambda _: None)
    old = draft.finish()

    assert verdict_of(replace(old, facts=replace(run.facts, due=()))).valid is True


def entries(node: str, count: int, missing: int | None = 0) -> dict[str, Any]:
    nothing = {"holes": 0, "hole_at": [], "wrong": 0, "wrong_at": []}
    return {
        "kind": "queue_entries",
        "time_ns": 9,
        "node": node,
        "broker_name": "b",
        "entries": count,
        "missing": missing,
        **nothing,
    }


def replica(**fields: Any) -> dict[str, Any]:
    return {
        "kind": "replica",
        "time_ns": 9,
        "broker_name": "b",
        "master": "n0",
        "slave": "n1",
        "master_end": 5000,
        "slave_end": 5000,
        "first_difference": None,
        **fields,
    }


@pytest.mark.parametrize(
    ("observations", "reason"),
    [
        ([entries("n0", 2)], None),
        ([entries("n0", 1)], "n0 has 1 queue entries, and the drained queues of b hold 2 messages"),
        ([entries("n0", 1, missing=None)], None),  # retention has taken the others
        ([entries("n0", 1, missing=1)], None),  # queue_entry_missing
        (
            [entries("n0", 9), entries("n1", 7), replica()],
            "n0 and n1 have the same log, and 9 and 7 queue entries",
        ),
        ([entries("n0", 9), entries("n1", 7), replica(slave_end=4000)], None),  # not yet there
        ([entries("n0", 9), entries("n1", 7), replica(first_difference=4000)], None),
        ([replica(first_difference=4000, differences=[4000, 4001])], None),
        (
            [replica(first_difference=4000, differences=[3000])],
            "n1 differs from n0 at 1 listed places, and the first difference is 4000",
        ),
    ],
)
def test_entries_and_replicas(observations: list[dict[str, Any]], reason: str | None) -> None:
    ops = history("0 ok send a", "0 ok send b", "1 ok consume a b", "9 ok drain 0:2:2")
    known = facts(replica_sets={"b": ("n0", "n1")})
    verdict = judged_by("agreement", ops, observations, known)

    assert verdict.reason == reason
    assert verdict.valid == (True if reason is None else "unknown")


@pytest.mark.parametrize(
    ("ops", "changes", "reason"),
    [
        (GAP, {}, "drains have read 1 positions"),
        ([*GAP, "0 info send c"], {}, "drains have read 1 positions"),
        (["0 ok send a@0:0", "1 ok consume c@0:1", "0 ok send b@0:2"], {}, None),
        (GAP, {"due": ()}, None),  # others may leave places out
        (
            GAP,
            {"mode": "faithful"},
            "drained queues have 1 positions without any message, and 0 sends",
        ),
        ([*GAP, "0 info send c"], {"mode": "faithful"}, None),
        (["0 ok send a@0:0", "0 ok send b@0:2 attempts=2"], {"mode": "faithful"}, None),
    ],
)
def test_positions_of_a_drained_queue(
    ops: list[str], changes: dict[str, Any], reason: str | None
) -> None:
    ops = [*ops, "1 ok consume a b", "9 ok drain 0:3:3"]
    found = judged_by(
        "agreement", history(*ops), [], facts(**{"due": ("commit",), **changes})
    ).reason

    assert (found is None) == (reason is None)
    assert found is None or found.startswith(reason or "")


@pytest.mark.parametrize("cut_s", [None, 0.5])
def test_a_record_that_its_log_does_not_reach(cut_s: float | None) -> None:
    """A power cut may take it before the answer is there."""
    seen = {
        "time_ns": round(1.1 * S),
        "kind": "ack_durability",
        "key": "a",
        "status": "SEND_OK",
        "broker_name": "b",
        "end_offset": 900,
        "durable_on": [],
        "cached_on": [],
        "unobserved": [],
    }
    cut = () if cut_s is None else (fault("power_cut", "n0", at_s=cut_s, healed_s=cut_s + 1),)
    ops = history("0 ok send a@0:0 physical=900 t=1", "1 ok consume a t=2", "9 ok drain 0:1:1 t=60")
    reason = judged_by("agreement", ops, [seen], facts(flush="async", faults=cut)).reason

    assert (reason is None) is bool(cut)
    assert reason is None or "lie within the record of another one" in reason


def test_a_drain_that_leaves_out_a_number() -> None:
    """Numbers of queues are as large as they are in other systems' histories, which nothing is due of."""
    ops = history("0 ok send a@9000000000000000:0", "1 ok consume a", "9 ok drain")

    verdicts = [
        check_run(ops, [], facts(due=due), only("agreement")).verdicts for due in ((), ("commit",))
    ]
    old, new = (next(of for of in many if of.checker == "agreement") for many in verdicts)

    assert old.reason is None
    assert new.reason == ("the drain of g has queue 9000000000000000 of t on b, and no queue 0")


@pytest.mark.parametrize(
    ("queues", "at_s", "reason"),
    [
        (1, 1, None),
        (2, 1, "b had confirmed queue 1 of t, and the drain of g leaves it out"),
        (2, 70, None),  # the drain had asked before
    ],
)
def test_a_drain_that_leaves_out_what_a_leader_has_confirmed(
    queues: int, at_s: int, reason: str | None
) -> None:
    ops = history("0 ok send a@0:0", "1 ok consume a", "9 ok drain 0:1:1 t=60")
    known = facts(due=("commit",), faults=(queues_confirmed(queues, at_s=at_s),))
    assert judged_by("agreement", ops, [], known).reason == reason


@pytest.mark.parametrize(
    ("faults", "queues_max", "count"),
    [
        (("topic_change",), 0, 1),  # a fault adds queues, and the master counts them after the run
        (("topic_change", "disk_lost"), 0, 0),  # it may have forgotten them
        (("topic_change", "disk_lost"), 64, 1),
        (("topic_change", "disk_lost"), 78, 0),
    ],
)
def test_a_queue_number_that_no_topic_has(
    faults: tuple[str, ...], queues_max: int, count: int, run: Run
) -> None:
    (mutation,) = kinds_named(("queue_renumbered",))
    planted = mutation.plant(run, Random("again"), "rest")
    assert planted is not None
    masters = [nodes[0] for nodes in run.facts.replica_sets.values()]
    struck = tuple(fault(kind, *masters, at_s=1, healed_s=2) for kind in faults)
    changed = replace(run.facts, faults=struck, queues_max=queues_max)

    assert (verdict_of(replace(planted, facts=changed)).counts["strange_queues"] > 0) is (count > 0)


def plain(run: Run) -> Run:
    return run


def without_first_queue(run: Run) -> Run:
    (mutation,) = kinds_named(("within_other_record",))
    planted = mutation.plant(run, Random(1), "rest")
    assert planted is not None
    return planted


@pytest.mark.parametrize("edit", [plain, without_first_queue])
def test_any_cut_gives_the_same_answer(run: Run, edit: Callable[[Run], Run]) -> None:

    edited = edit(run)
    columns, timeline = build_columns(edited.ops)
    context = Context(
        facts=edited.facts,
        timeline=timeline,
        promises=LossPromises(edited.facts),
        observations=edited.observations,
    )

    whole = AGREEMENT.check(columns, context)

    assert check_chunks(AGREEMENT, columns, context, 3) == whole


def durable(end: int, at_s: float, *nodes: str) -> dict[str, Any]:
    return {
        "kind": "ack_durability",
        "time_ns": round(at_s * S),
        "key": f"k{end}",
        "status": "SEND_OK",
        "broker_name": "b",
        "end_offset": end,
        "durable_on": list(nodes),
        "cached_on": [],
        "unobserved": [],
    }


def short_log_sentences(seen: list[dict[str, Any]], **known: Any) -> list[str]:
    ops = history("0 ok send a", "1 ok consume a", "9 ok drain 0:1:1")
    _, context = read_ops(ops, seen, **known)
    return list(short_logs(context))


def compared(slave_end: int) -> dict[str, Any]:
    """What an observer saw of the slave of a broker after 100 s, whose master ends at 100."""
    return {
        "kind": "replica",
        "time_ns": 100 * S,
        "broker_name": "b",
        "master": "n0",
        "slave": "n1",
        "master_end": 100,
        "slave_end": slave_end,
        "first_difference": None,
    }


@pytest.mark.parametrize(
    ("acked_s", "slave_end", "known", "is_behind"),
    [
        (1.0, 50, {}, True),
        (1.0, 100, {}, False),
        (95.0, 50, {}, False),  # it may still be on its way
        (1.0, 50, {"faults": (fault("pause", "n1", at_s=80, healed_s=90),)}, False),
        (1.0, 50, {"faults": (fault("pause", "n1", at_s=2, healed_s=3),)}, True),
        (1.0, 50, {"faults": (fault("pause", "n7", at_s=80, healed_s=90),)}, True),
        (1.0, 50, {"exits": (NodeExit(node="n0", time_ns=90 * S, error=""),)}, False),
        (1.0, 50, {"mode": "faithful"}, False),
    ],
)
def test_a_slave_has_what_was_acknowledged_long_ago(
    acked_s: float, slave_end: int, known: dict[str, Any], is_behind: bool
) -> None:
    seen = [durable(100, acked_s, "n0"), compared(slave_end)]
    found = short_log_sentences(seen, replica_sets={"b": ("n0", "n1")}, **known)
    assert [sentence[:15] for sentence in found] == (["n1 ends at 50 a"] if is_behind else [])


ROT = RottenRecord(key="x", start=40, end=60)


@pytest.mark.parametrize(
    ("nodes", "slave_end", "known", "is_below"),
    [
        ("n0 n1", 50, {}, True),
        ("n0 n1", 100, {}, False),
        ("n0", 50, {}, False),  # never on its disk, and still on its way
        ("n0 n1", 50, {"faults": (fault("kill", "n1", at_s=98, healed_s=99),)}, True),
        ("n0 n1", 50, {"faults": (fault("power_cut", "n1", at_s=98, healed_s=99),)}, True),
        ("n0 n1", 50, {"faults": (fault("wiped_slave", "n1", at_s=98, healed_s=99),)}, False),
        ("n0 n1", 50, {"faults": (fault("wiped_slave", "n1", at_s=90, healed_s=91),)}, True),
        ("n0 n1", 50, {"faults": (fault("disk_lost", "n0", at_s=98, healed_s=99),)}, False),
        ("n0 n1", 50, {"faults": (fault("power_cut", "n0", at_s=98, healed_s=99),)}, True),
        (
            "n0 n1",
            50,
            {"faults": (fault("power_cut", "n0", at_s=98, healed_s=99),), "flush": "async"},
            False,  # the slave was cut back to what its master has, and fetches anew
        ),
        ("n0 n1", 50, {"mode": "faithful"}, False),
    ],
)
def test_a_slave_has_what_was_on_its_disk(
    nodes: str, slave_end: int, known: dict[str, Any], is_below: bool
) -> None:
    seen = [durable(100, 95, *nodes.split()), compared(slave_end)]
    found = short_log_sentences(seen, replica_sets={"b": ("n0", "n1")}, **known)
    reported = "n1 ends at 50 after the run, and its disk had held what was acknowledged up to 100"
    assert found == ([reported] if is_below else [])


@pytest.mark.parametrize(
    ("nodes", "end", "faults", "is_short"),
    [
        (("n0",), 40, (), True),
        (("n0",), 100, (), False),
        (("n1",), 40, (), False),  # it was on the other disk
        (("n0",), 40, (fault("power_cut", "n0", at_s=5, healed_s=6),), True),
        (("n0",), 40, (fault("disk_lost", "n0", at_s=5, healed_s=6),), False),
        (
            ("n0",),
            40,
            (replace(fault("bit_rot", "n0", at_s=5, healed_s=6), records=(ROT,)),),
            False,
        ),
        (("n0",), 30, (replace(fault("bit_rot", "n0", at_s=5, healed_s=6), records=(ROT,)),), True),
    ],
)
def test_a_log_is_recovered_as_far_as_it_was_on_the_disk(
    nodes: tuple[str, ...], end: int, faults: tuple[Any, ...], is_short: bool
) -> None:
    seen = [durable(100, 2, *nodes), {**recovery("n0", 10), "end_offset": end}]
    found = short_log_sentences(seen, replica_sets={"b": ("n0", "n1")}, faults=faults)
    reported = f"n0 recovered its log up to {end} at 10.000 s, and its disk had held what was acknowledged up to 100"
    assert found == ([reported] if is_short else [])


@pytest.mark.parametrize(
    ("flush", "acked_s", "more", "is_short"),
    [
        ("sync", 38, (), True),
        ("async", 38, (), False),
        ("async", 42, (), False),
        ("async", 27, (), False),
        ("async", 26, (), True),  # a flush begins 13.5 s after a write at the latest
        ("async", 26, (fault("slow_disk", "n0", at_s=25, healed_s=30),), False),
        ("async", 26, (fault("slow_disk", "n1", at_s=25, healed_s=30),), True),
        ("async", 44.5, (), True),  # after the cut
    ],
)
def test_without_sync_flush_a_page_may_be_on_the_disk_before_one_below(
    flush: str, acked_s: float, more: tuple[FaultFacts, ...], is_short: bool
) -> None:
    seen = [durable(100, acked_s, "n0"), {**recovery("n0", 45), "end_offset": 40}]
    cut = fault("power_cut", "n0", at_s=40, healed_s=44)
    known = {"replica_sets": {"b": ("n0", "n1")}, "faults": (cut, *more), "flush": flush}
    assert bool(short_log_sentences(seen, **known)) is is_short
