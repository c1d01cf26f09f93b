"""Second copies of what a broker keeps back at first, such as a delayed message: far from its deaths, and near them.

The second copy takes the place of another message of the same queue, which then was never sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.intervals import Span
from tests.checkers.mutations.events import BARE, Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_contents import STORED
from tests.checkers.mutations.model import MS, NoSuchSite, Run, S
from tests.checkers.mutations.pick import is_delivered_once, message_of
from tests.checkers.mutations.planting import Planting

KEPT_BACK = ("delayed", "transactional")
AGAIN_WITHIN_NS = 20 * S
KILLED_NS = S // 5
WRITTEN_NS = 20 * S  # a broker writes every 10 s what it has moved
LONG_BACK_NS = 37 * S
SOON_NS = 8 * S


class Moved(NamedTuple):
    """A message that was kept back, and the one whose place its second copy takes."""

    first: Delivery
    again: Delivery
    first_ns: int  # when the broker had stored it
    again_ns: int


def _pairs(draft: Planting, fits: Callable[[Moved], bool]) -> Moved:
    run = draft.run
    stored = {d: at_ns for d in _singles(run) if (at_ns := _stored_ns(run, d)) is not None}
    others: dict[tuple[str, tuple[str, str, int]], list[Delivery]] = {}
    for one in stored:
        others.setdefault((one.group, one.place), []).append(one)

    def moves(first: Delivery) -> list[Moved]:
        return [
            moved
            for again in others[first.group, first.place]
            if stored[again] > stored[first]
            and fits(moved := Moved(first, again, stored[first], stored[again]))
        ]

    kept_back = [d for d in stored if _is_kept_back(run, d)]
    return draft.rng.choice(moves(draft.choose(kept_back, lambda first: bool(moves(first)))))


def _singles(run: Run) -> list[Delivery]:
    """Deliveries of messages that lie at one place, for all that is known."""
    return [
        d
        for d in run.deliveries
        if is_delivered_once(run, d.key)
        and run.sends[d.key].type == "ok"
        and run.sends[d.key].attempts == 1
    ]


def _stored_ns(run: Run, delivery: Delivery) -> int | None:
    """When the broker stored it, by a clock that was right; None if that is not known."""
    row = message_of(run, delivery)
    if run.facts.wall_epoch_ms is None or len(row) <= BARE or row[BARE][STORED] is None:
        return None
    return int(row[BARE][STORED] - run.facts.wall_epoch_ms) * MS


def _is_kept_back(run: Run, delivery: Delivery) -> bool:
    asked = run.ops[run.sends[delivery.key].begin].value
    return "delay_level" in asked or asked.get("transaction") == "commit"


def _planted(draft: Planting, moved: Moved) -> None:
    run = draft.run
    draft.drop_ops(lambda op: bool(op.value.get("key") == moved.again.key))
    draft.look_up(moved.again.key, lambda row: None)
    draft.observe(lambda seen: seen.get("key") == moved.again.key, lambda seen: None)
    original = message_of(run, moved.first)
    for delivery in run.by_key[moved.again.key]:
        row = message_of(run, delivery)
        contents: list[Any] = list(original[BARE])
        contents[STORED] = row[BARE][STORED]
        messages = draft.messages(delivery)
        messages[delivery.slot] = [moved.first.key, *row[1:BARE], contents]
        draft.set_messages(delivery, messages)


def _is_quiet(run: Run, moved: Moved, begin_ns: int, end_ns: int) -> bool:
    """Whether no fault of its broker can explain what happens in that time."""
    return not run.is_explained(begin_ns, end_ns, run.nodes_of_broker(moved.first.broker), 20)


def _since_ns(run: Run, moved: Moved) -> int:
    """A half is kept back from its send on, and what is delayed lies in its own queue until it is moved."""
    sent = run.sends[moved.first.key]
    return sent.begin_ns if run.workload == "transactional" else moved.first_ns - S


@KINDS.mutation(
    "duplicate_unexplained",
    "a message that was kept back lies twice in its queue, and its broker has not died",
    workloads=KEPT_BACK,
)
def moved_again(draft: Planting) -> None:
    moved = _pairs(
        draft,
        lambda of: (
            of.again_ns - of.first_ns < AGAIN_WITHIN_NS
            and draft.is_here(of.first_ns, of.again_ns)
            and _is_quiet(draft.run, of, _since_ns(draft.run, of), of.again_ns)
        ),
    )
    _planted(draft, moved)


def near_death(
    draft: Planting, when: Callable[[Moved], Span], fits: Callable[[Moved, Span], bool]
) -> None:
    """A second copy, and a death of the master, whose time has to fit to the copies; no fault is near."""
    moved = _pairs(
        draft,
        lambda of: (
            fits(of, dead := when(of))
            and draft.is_here(min(of.first_ns, dead.start_ns), max(of.again_ns, dead.end_ns))
            and _is_quiet(
                draft.run,
                of,
                min(_since_ns(draft.run, of), dead.start_ns),
                max(of.again_ns, dead.end_ns),
            )
        ),
    )
    _planted(draft, moved)
    _with_death(draft, moved.first.broker, when(moved))


def _with_death(draft: Planting, broker: str, dead: Span) -> None:
    """The master is killed, loses nothing, and begins behind what lies in its log."""
    run = draft.run
    master = run.nodes_of_broker(broker)[0]
    later = [
        d.physical
        for d in run.deliveries
        if d.broker == broker and (_stored_ns(run, d) or 0) >= dead.start_ns
    ]
    starts = [
        seen for seen in run.observations if seen["kind"] == "recovery" and seen["node"] == master
    ]
    if not later or not starts:
        raise NoSuchSite
    start = {**starts[0], "time_ns": dead.end_ns, "end_offset": min(later)}
    draft.observations = sorted(
        [*draft.observations, start], key=lambda seen: seen.get("time_ns", 0)
    )
    kill = FaultFacts(
        fault_id="planted",
        kind="kill",
        targets=(master,),
        fired_ns=dead.start_ns,
        bitten_ns=dead.start_ns,
        healed_ns=dead.end_ns,
    )
    draft.facts = replace(run.facts, faults=(*run.facts.faults, kill))


def _killed_at(time_ns: int) -> Span:
    return Span(time_ns, time_ns + KILLED_NS)


def _killed_after(moved: Moved) -> Span:
    return _killed_at(moved.first_ns + S)


@KINDS.mutation(
    "duplicate_unexplained",
    "a broker was killed 20 s after it had moved a message, and moves it again",
    workloads=KEPT_BACK,
)
def moved_again_though_written(draft: Planting) -> None:
    near_death(
        draft,
        lambda of: _killed_at(of.again_ns - S),
        lambda of, dead: of.first_ns + WRITTEN_NS < dead.start_ns,
    )


@KINDS.mutation(
    "duplicate_unexplained",
    "a broker was killed soon after it had moved a delayed message, and moves it again 37 s after it is back",
    workloads=("delayed",),
)
def moved_again_long_after(draft: Planting) -> None:
    near_death(draft, _killed_after, lambda of, dead: dead.end_ns + LONG_BACK_NS < of.again_ns)


@KINDS.mutation(
    "duplicate_unexplained",
    "a broker was killed before it moved a delayed message for the first time, and moves it again",
    workloads=("delayed",),
)
def moved_again_of_itself(draft: Planting) -> None:
    near_death(
        draft,
        lambda of: _killed_at(of.first_ns - S),
        lambda of, dead: of.again_ns < dead.end_ns + SOON_NS,
    )


def moved_after_death(draft: Planting) -> None:
    """A second copy that a death explains."""
    near_death(
        draft, _killed_after, lambda of, dead: dead.end_ns < of.again_ns < dead.end_ns + SOON_NS
    )
