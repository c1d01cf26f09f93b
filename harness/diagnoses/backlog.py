"""Diagnoses backlogs: their sizes, the rates at which groups worked them off, and the numbers of queues.

Source: a consumer of RocketMQ has one pull under way for each queue that it owns, so the rate of a group per queue does
not depend on the size of the backlog. More queues raise the group's rate, and so do more members, up to one per queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.guarantees.verdict import seconds
from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import messages_in
from staticfire.checkers.op_kinds.catalogue import DELIVERIES, SENDS
from staticfire.checkers.op_kinds.consumer import CONSUME_MANY
from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.faults.kinds.client_faults import SlowConsumer
from staticfire.harness.diagnoses.forwarding import Way, forwardings, sentences, way_of
from staticfire.harness.diagnoses.new_deliveries import NewDeliveries
from staticfire.harness.results.run_result import RunResult

BOTH_ENDS = SENDS | DELIVERIES
PEAK_MIN = 1000  # messages; fewer are not a backlog
LONG_NS = 5 * NS_PER_S  # a small backlog this long is reported beside a large one
DRAINED_SHARE = 20  # of the peak: worked off when no more than a twentieth is left


@dataclass(frozen=True, slots=True)
class Step:
    """The open messages after an op; `queue` is the queue of a delivery, None for a send."""

    time_ns: int
    open: int
    queue: tuple[str, int] | None
    member: str
    consumed: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """A backlog, from its peak to its end."""

    peak: int
    start_ns: int
    first_ns: int  # when a third of it was worked off
    second_ns: int  # when two thirds of it were worked off
    end_ns: int
    queues: int
    members: int

    @property
    def lasts_long(self) -> bool:
        return self.end_ns - self.start_ns >= LONG_NS

    @property
    def rate(self) -> int:
        """Return the rate in messages a second."""
        return self.peak * NS_PER_S // max(1, self.end_ns - self.start_ns)

    def thirds(self) -> tuple[int, int, int]:
        """Return the rate for each third of the messages; the end leaves a share of the last third."""
        third = self.peak * NS_PER_S // 3
        last = third - self.peak * NS_PER_S // DRAINED_SHARE
        return (
            third // max(1, self.first_ns - self.start_ns),
            third // max(1, self.second_ns - self.first_ns),
            last // max(1, self.end_ns - self.second_ns),
        )


def backlog(result: RunResult) -> list[str]:
    """Return a paragraph for each backlog of a run, and one each for the effects of more members and more queues."""
    forwarded = forwardings(result.ops)
    found = list(_backlogs(_steps(result.ops, {one.topic for one in forwarded})))
    if not found:
        return []
    largest = max(one.peak for one in found)
    # Drop small, short ones, which are noise beside a large one.
    found = [one for one in found if one.peak * DRAINED_SHARE > largest or one.lasts_long]
    ways = {
        one: way
        for one in found
        for forwarding in forwarded
        if (way := way_of(forwarding, one.start_ns, one.end_ns)) is not None
    }
    direct = [one for one in found if one not in ways]
    each = [
        (_sentence(one), *_slowness(result, one), *_forwarded(one, ways, direct)) for one in found
    ]
    said = [*each, (*_more_members(direct), *_more_queues(direct))]
    return [" ".join(sentences) for sentences in said if sentences]


def _forwarded(
    one: Backlog, ways: Mapping[Backlog, Way], direct: Sequence[Backlog]
) -> Sequence[str]:
    """Compare forwarding with the latest earlier rate of the group alone on these queues."""
    if one not in ways:
        return ()
    before = [
        other for other in direct if other.queues == one.queues and other.end_ns <= one.start_ns
    ]
    return sentences(ways[one], before[-1].rate if before else None)


def _more_members(found: Sequence[Backlog]) -> Iterator[str]:
    """Compare rates with more members on the same queues."""
    if not found:
        return
    few = min(found, key=lambda one: one.members)
    same = [one for one in found if one.queues == few.queues and one.members > few.members]
    if same:
        many = max(same, key=lambda one: one.members)
        yield (
            f"{many.members} members instead of {few.members} for {few.queues} queues made it "
            f"{many.rate / max(1, few.rate):.1f} times as fast."
        )


def _more_queues(found: Sequence[Backlog]) -> Iterator[str]:
    """Compare rates with more queues, with the same members if there are two such backlogs."""
    many = max(found, key=lambda one: one.queues, default=None)
    if many is None:
        return
    fewer = [one for one in found if one.queues < many.queues]
    if not fewer:
        return
    few = min(fewer, key=lambda one: (one.members != many.members, one.queues, one.rate))
    if many.rate <= few.rate:
        yield (
            f"{many.queues} queues were no faster than {few.queues}: here the queues do not limit the rate, for "
            "example because all nodes share the processors of one host."
        )
    else:
        yield (
            f"Consumers have one pull under way for each queue: {many.queues} queues instead of {few.queues} made it "
            f"{many.rate / max(1, few.rate):.1f} times as fast. The size of the backlog does not matter."
        )


def _slowness(result: RunResult, one: Backlog) -> Iterator[str]:
    """Return the delays of listeners during the backlog, if a fault made them slow."""
    delays = [
        record.planned.params["delay_s"]
        for record in result.faults
        if record.planned.kind == SlowConsumer.name
        and record.fired_ns is not None
        and record.fired_ns <= one.start_ns
        and (record.healed_ns is None or record.healed_ns >= one.end_ns)
    ]
    if delays:
        yield f"Meanwhile {len(delays)} listeners took {max(delays):g} s for every call."


def _sentence(one: Backlog) -> str:
    first, second, third = one.thirds()
    members = "1 member" if one.members == 1 else f"{one.members} members"
    return (
        f"A backlog of {one.peak} messages was worked off from t={seconds(one.start_ns)} to {seconds(one.end_ns)} out "
        f"of {one.queues} queues by {members}: {one.rate} a second beyond what came in; {first} at the "
        f"beginning, {second} in the middle and {third} at the end."
    )


def _steps(ops: Sequence[Op], copies: Container[str]) -> Iterator[Step]:
    """Yield the open acknowledged messages. A message counts as consumed once; copies in these topics do not count."""
    acked: set[str] = set()
    consumed: set[str] = set()
    many = 0  # open messages of those sent by `send_many`
    deliveries = NewDeliveries()  # of the same messages
    for op in ops:
        if op.type != "ok" or op.f not in BOTH_ENDS or op.value["topic"] in copies:
            continue
        if op.f == SEND_MANY:
            many += messages_in(op)
            yield Step(op.time_ns, len(acked) + many, None, "", 0)
        elif op.f == "send" and op.value["key"] not in consumed:
            acked.add(op.value["key"])
            yield Step(op.time_ns, len(acked) + many, None, "", 0)
        elif op.f in DELIVERIES:
            queue = op.value["broker"], op.value["queue"]
            if op.f == CONSUME_MANY:
                new = deliveries.count(op)
                many -= new
            else:
                keys = {message[0] for message in op.value["messages"]}
                new = len(keys & acked)
                acked -= keys
                consumed |= keys
            yield Step(op.time_ns, len(acked) + many, queue, op.node or str(op.process), new)


def _shared(given: Counter[tuple[str, int]]) -> int:
    """Return the number of queues with at least a tenth of an even share; the others joined at the end."""
    return sum(10 * messages * len(given) >= given.total() for messages in given.values())


def _backlogs(steps: Iterator[Step]) -> Iterator[Backlog]:
    """Yield the backlogs, each from the first delivery after its peak to its end."""
    peak = start_ns = first_ns = second_ns = 0
    queues: Counter[tuple[str, int]] = Counter()  # messages delivered from each queue
    members: set[str] = set()
    for step in steps:
        if step.queue is None and step.open > peak:  # the rest of a backlog is not a new one
            peak, start_ns, first_ns, second_ns = step.open, 0, 0, 0
            queues.clear()
            members.clear()
        if step.queue is not None and step.consumed and peak >= PEAK_MIN:
            start_ns = start_ns or step.time_ns
            queues[step.queue] += step.consumed
            members.add(step.member)
        if start_ns and not first_ns and 3 * step.open <= 2 * peak:
            first_ns = step.time_ns
        if start_ns and not second_ns and 3 * step.open <= peak:
            second_ns = step.time_ns
        if step.open <= peak // DRAINED_SHARE:
            if start_ns and peak >= PEAK_MIN:
                end_ns = step.time_ns
                yield Backlog(
                    peak, start_ns, first_ns, second_ns, end_ns, _shared(queues), len(members)
                )
            peak = start_ns = first_ns = second_ns = 0
            queues.clear()
            members.clear()
