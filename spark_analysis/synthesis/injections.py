"""Injects anomalies into a synthetic history, each with the findings to expect.

An injection changes a few slots around an *injection point*: the first slot of a batch that is followed by two more
whole batches of its queue in which every send was acknowledged. No two injection points share a slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from staticfire.checkers.model.columns import UNKNOWN, Ints, Outcome
from staticfire.spark_analysis.synthesis.synthetic_slots import Redelivery, Slots
from staticfire.spark_analysis.synthesis.workload_profile import WorkloadProfile

FRESH_FROM = 1 << 32  # from here on, numbers of keys that no ordinary send has


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """One finding to expect."""

    anomaly: str
    explained: bool  # counted, but not a violation
    message: int
    queue: int
    queue_offset: int
    physical_offset: int = UNKNOWN
    branch: int | None = None  # the group's branch of the topic's fan-out


Injection = Callable[["InjectionPoint"], Iterator[Injected]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionPoint:
    """The slots where an anomaly is injected. `other` is an injection point in another queue of the topic."""

    slots: Slots
    profile: WorkloadProfile
    at: int
    other: int | None

    def expected(
        self, anomaly: str, at: int, *, explained: bool = False, branch: int | None = None
    ) -> Injected:
        slots = self.slots
        return Injected(
            anomaly=anomaly,
            explained=explained,
            message=int(slots.message[at]),
            queue=int(slots.queue[at]),
            queue_offset=int(slots.offset[at]),
            physical_offset=int(slots.stored[at]),
            branch=branch,
        )

    def passed_over(self, at: int, *, branch: int | None = None) -> Iterator[Injected]:
        """Yield the findings of the next delivery after a slot that a group (None: every group) did not get."""
        branches = range(len(self.slots.deliveries)) if branch is None else (branch,)
        for number in branches:
            yield self.expected("poll_skip", at + 1, branch=number)

    @property
    def batch(self) -> range:
        return range(self.at, self.at + self.profile.batch)

    def forget(self, at: int) -> None:
        """Leave a hole in the queue: no producer sent this message, and no member got it."""
        self.slots.sent[at] = False
        for delivered in self.slots.deliveries:
            delivered.kept[at] = False


def _lost(point: InjectionPoint) -> Iterator[Injected]:
    for delivered in point.slots.deliveries:
        delivered.kept[point.at] = False
    yield point.expected("lost", point.at)
    yield from point.passed_over(point.at)


def _unseen(point: InjectionPoint) -> Iterator[Injected]:
    """One group does not get the message, while another one does."""
    if len(point.slots.deliveries) > 1:
        point.slots.deliveries[0].kept[point.at] = False
        yield point.expected("unseen", point.at, branch=0)
        yield from point.passed_over(point.at, branch=0)


def _phantom(point: InjectionPoint) -> Iterator[Injected]:
    point.slots.sent[point.at] = False
    yield point.expected("phantom", point.at)


def _aborted_read(point: InjectionPoint) -> Iterator[Injected]:
    slots = point.slots
    slots.outcome[point.at] = Outcome.FAILED
    for column in (slots.acked_queue, slots.acked_offset, slots.physical):
        column[point.at] = UNKNOWN
    yield point.expected("aborted_read", point.at)


def _corrupt(point: InjectionPoint) -> Iterator[Injected]:
    branch = len(point.slots.deliveries) - 1
    point.slots.deliveries[branch].body_ok[point.at] = False
    yield point.expected("corrupt", point.at, branch=branch)


def _misrouted(point: InjectionPoint) -> Iterator[Injected]:
    """The acknowledgement names another queue than the one from which the message is delivered."""
    slots, other = point.slots, point.other
    if other is None:
        return
    point.forget(other)
    slots.acked_queue[point.at] = slots.queue[other]
    slots.acked_offset[point.at] = slots.offset[other]
    slots.physical[point.at] = slots.physical[other]
    slots.invoke_ns[point.at] = min(slots.invoke_ns[point.at], slots.append_ns[other] - 1)
    slots.done_ns[point.at] = max(slots.done_ns[point.at], slots.append_ns[other])
    yield point.expected("misrouted", point.at)
    yield from point.passed_over(other)


def _duplicate_explained(point: InjectionPoint) -> Iterator[Injected]:
    """The listener fails, and the batch is delivered again."""
    slots, batch = point.slots, list(point.batch)
    delivered = slots.deliveries[0]
    delivered.outcome[batch] = Outcome.UNKNOWN
    _again(slots, batch, tries=1)
    for at in batch:
        yield point.expected("duplicate", at, explained=True, branch=0)


def _duplicate_unexplained(point: InjectionPoint) -> Iterator[Injected]:
    _again(point.slots, [point.at], tries=0)
    yield point.expected("duplicate_unexplained", point.at, branch=0)
    yield point.expected(
        "nonmonotonic_poll", point.at, explained=True, branch=0
    )  # allowed, since the offset was not committed


def _again(slots: Slots, which: list[int], *, tries: int) -> None:
    done_ns = int(slots.deliveries[0].done_ns[which].max())
    slots.redeliveries.append(
        Redelivery(
            branch=0,
            slots=np.array(which),
            invoke_ns=done_ns + 1000,
            done_ns=done_ns + 2000,
            tries=tries,
        )
    )


def _copy(point: InjectionPoint) -> Iterator[Injected]:
    """A send with one attempt is stored in two queues."""
    slots, other = point.slots, point.other
    if other is None:
        return
    slots.tries[point.at] = 1
    slots.sent[other] = False
    slots.invoke_ns[point.at] = min(slots.invoke_ns[point.at], slots.append_ns[other] - 1)
    slots.message[other] = slots.message[point.at]
    for branch, delivered in enumerate(slots.deliveries):
        delivered.message[other] = slots.message[point.at]
        yield point.expected("duplicate_unexplained", point.at, branch=branch)
    yield point.expected("misrouted", other)


def _copy_explained(point: InjectionPoint) -> Iterator[Injected]:
    for injected in _copy(point):
        point.slots.tries[point.at] = 2
        if injected.anomaly != "misrouted":  # a second attempt may have stored it elsewhere
            yield replace(injected, anomaly="duplicate", explained=True)


def _inconsistent_offsets(point: InjectionPoint) -> Iterator[Injected]:
    """Two concurrent sends get one offset, and both messages are delivered from it."""
    slots, at, second = point.slots, point.at, point.at + 1
    if point.profile.batch < 2:
        return
    slots.invoke_ns[second] = min(slots.invoke_ns[second], slots.invoke_ns[at])
    slots.acked_offset[second] = slots.offset[at]
    for delivered in slots.deliveries:
        delivered.offset[second] = slots.offset[at]
    offset = int(slots.offset[at])
    yield replace(point.expected("inconsistent_offsets", second), queue_offset=offset)
    for branch in range(len(slots.deliveries)):
        expected = point.expected("int_nonmonotonic_poll", second, branch=branch)
        yield replace(expected, queue_offset=offset)
        # No message is delivered from the offset that the second one should have had.
        inside = second + 1 in point.batch
        yield point.expected("int_poll_skip" if inside else "poll_skip", second + 1, branch=branch)


def _realtime_order(point: InjectionPoint) -> Iterator[Injected]:
    """The message at the higher offset was acknowledged before the other send began."""
    _overtake(point)
    process = point.slots.process
    same = process[point.at] == process[point.at + 1]
    yield point.expected("nonmonotonic_send" if same else "realtime_order", point.at)


def _nonmonotonic_send(point: InjectionPoint) -> Iterator[Injected]:
    """The same as `_realtime_order`, by one process."""
    slots, at = point.slots, point.at
    _overtake(point)
    _rename(slots, at + 1, int(slots.process[at]))
    yield point.expected("nonmonotonic_send", at)


def _overtake(point: InjectionPoint) -> None:
    slots, late, early = point.slots, point.at, point.at + 1
    first_ns, second_ns = int(slots.append_ns[late]), int(slots.append_ns[early])
    slots.invoke_ns[early], slots.done_ns[early] = first_ns - 1, first_ns
    slots.invoke_ns[late], slots.done_ns[late] = first_ns + 1, max(second_ns, first_ns + 2)


def _rename(slots: Slots, at: int, process: int) -> None:
    slots.process[at] = process
    slots.message[at] = (process << 40) | (FRESH_FROM + slots.begin_ns // 1000 + slots.fresh)
    slots.fresh += 1
    for delivered in slots.deliveries:
        delivered.message[at] = slots.message[at]


def _out_of_order(point: InjectionPoint) -> Iterator[Injected]:
    """A group gets the second batch before the first."""
    delivered, size = point.slots.deliveries[0], point.profile.batch
    first, second = list(point.batch), list(range(point.at + size, point.at + 2 * size))
    for times in (delivered.invoke_ns, delivered.done_ns):
        times[first] = times[second[0]] + 1
    for at in first:
        yield point.expected("out_of_order", at, branch=0)
    yield point.expected("poll_skip", second[0], branch=0)
    yield point.expected("nonmonotonic_poll", first[0], branch=0)


def _skip_in_a_call(point: InjectionPoint) -> Iterator[Injected]:
    """One group gets the first and the third message of a batch, but not the second."""
    if point.profile.batch >= 3 and len(point.slots.deliveries) > 1:
        at = point.at + 1
        point.slots.deliveries[0].kept[at] = False
        yield point.expected("unseen", at, branch=0)
        yield point.expected("int_poll_skip", at + 1, branch=0)


def _commit_ahead(point: InjectionPoint) -> Iterator[Injected]:
    """One commit is far ahead of the reads, and the next one is right; `synthetic_rows` writes both."""
    slots = point.slots
    queue = int(slots.queue[point.at])
    if slots.begin_ns + (slots.end_ns - slots.begin_ns) // 2 >= slots.calm_from_ns:
        slots.commits_ahead.append(queue)
    yield from ()


INJECTIONS: Mapping[str, Injection] = {
    "lost": _lost,
    "unseen": _unseen,
    "phantom": _phantom,
    "aborted_read": _aborted_read,
    "corrupt": _corrupt,
    "misrouted": _misrouted,
    "duplicate": _duplicate_explained,
    "duplicate_unexplained": _duplicate_unexplained,
    "copy": _copy,
    "copy_explained": _copy_explained,
    "inconsistent_offsets": _inconsistent_offsets,
    "realtime_order": _realtime_order,
    "nonmonotonic_send": _nonmonotonic_send,
    "out_of_order": _out_of_order,
    "int_poll_skip": _skip_in_a_call,
    "commit_ahead": _commit_ahead,
}


def inject(slots: Slots, profile: WorkloadProfile, kinds: list[str], number: int) -> list[Injected]:
    """Inject these kinds, as far as there are injection points; return the findings to expect."""
    rng = np.random.default_rng([profile.seed, number, 1])
    points = _find_points(rng, slots, profile, 4 * len(kinds))
    expected: list[Injected] = []
    spare = list(points[len(kinds) :])
    for kind, at in zip(kinds, points, strict=False):
        other = _partner(slots, profile, at, spare)
        point = InjectionPoint(slots=slots, profile=profile, at=at, other=other)
        expected.extend(INJECTIONS[kind](point))
    return expected


def _partner(slots: Slots, profile: WorkloadProfile, at: int, spare: list[int]) -> int | None:
    """Take a spare injection point in another queue of the same topic."""
    topics = profile.topic_of_queue()
    queue = slots.queue[at]
    for index, other in enumerate(spare):
        if slots.queue[other] != queue and topics[slots.queue[other]] == topics[queue]:
            return spare.pop(index)
    return None


def _find_points(
    rng: np.random.Generator, slots: Slots, profile: WorkloadProfile, wanted: int
) -> list[int]:
    span = 3 * profile.batch
    size = len(slots.queue)
    heads = np.flatnonzero(
        (slots.index_in_queue % profile.batch == 0) & (slots.index_in_queue >= profile.batch)
    )
    heads = heads[heads + span < size]
    good = (slots.queue[heads] == slots.queue[heads + span]) & _is_calm(slots, heads, span)
    heads = heads[good]
    room = np.unique(heads // (2 * span), return_index=True)[1]  # one in every range of two spans
    apart = _apart(heads[room], span)
    chosen = rng.permutation(len(apart))[:wanted]
    return [int(at) for at in apart[np.sort(chosen)][rng.permutation(len(chosen))]]


def _is_calm(slots: Slots, heads: Ints, span: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    troubled = (slots.outcome != Outcome.OK) | (slots.append_ns < slots.calm_from_ns)
    before = np.concatenate(([0], np.cumsum(troubled)))
    calm: np.ndarray[tuple[int], np.dtype[np.bool_]] = before[heads + span] == before[heads]
    return calm


def _apart(heads: Ints, span: int) -> Ints:
    """Drop every injection point whose slots reach into the next one."""
    if not len(heads):
        return heads
    kept = np.concatenate((heads[:-1] + span <= heads[1:], [True]))
    return heads[kept]
