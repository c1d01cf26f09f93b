"""Backlogs: how much had gathered, how fast it was worked off, and from how many queues.

Source: a consumer of RocketMQ has one pull under way for each queue that it owns, so what a group gets from a queue in
a second is a constant, however much lies there. More queues raise it, and more members up to one a queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checkers.promises import NS_PER_S
from checkers.verdict import seconds
from harness.run_result import RunResult

PEAK_MIN = 1000  # messages: less than this is no backlog
DRAINED_SHARE = 20  # of the peak: worked off when no more than a twentieth is left


@dataclass(frozen=True, slots=True)
class Step:
    """How much is open after an op; `queue` is where messages were consumed, None for a send."""

    time_ns: int
    open: int
    queue: tuple[str, int] | None
    consumed: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """From the most that was open until it was worked off."""

    peak: int
    start_ns: int
    middle_ns: int  # half of it was gone
    end_ns: int
    queues: int

    @property
    def rate(self) -> int:
        """Messages a second."""
        return self.peak * NS_PER_S // max(1, self.end_ns - self.start_ns)

    def halves(self) -> tuple[int, int]:
        """The same for the first and the second half of the messages."""
        half = self.peak * NS_PER_S // 2
        return (
            half // max(1, self.middle_ns - self.start_ns),
            half // max(1, self.end_ns - self.middle_ns),
        )


def backlog(result: RunResult) -> list[str]:
    """One paragraph for all backlogs of a run."""
    found = list(_backlogs(_steps(result)))
    if not found:
        return []
    texts = [_sentence(one) for one in found]
    slow, fast = min(found, key=lambda one: one.rate), max(found, key=lambda one: one.rate)
    if slow.queues < fast.queues:
        texts.append(
            f"Consumers have one pull under way for each queue: {fast.queues} queues instead of {slow.queues} made it "
            f"{fast.rate / max(1, slow.rate):.1f} times as fast. How much lies there does not matter."
        )
    return [" ".join(texts)]


def _sentence(one: Backlog) -> str:
    first, second = one.halves()
    return (
        f"A backlog of {one.peak} messages was worked off from t={seconds(one.start_ns)} to {seconds(one.end_ns)} out "
        f"of {one.queues} queues: {one.rate} a second beyond what came in, {first} in its first half and {second} in "
        "its second."
    )


def _steps(result: RunResult) -> Iterator[Step]:
    """What is open of what was acknowledged; a message counts as consumed once."""
    acked: set[str] = set()
    consumed: set[str] = set()
    for op in result.ops:
        if op.type != "ok":
            continue
        if op.f == "send" and op.value["key"] not in consumed:
            acked.add(op.value["key"])
            yield Step(op.time_ns, len(acked), None, 0)
        elif op.f == "consume":
            keys = {message[0] for message in op.value["messages"]}
            new = len(keys & acked)
            acked -= keys
            consumed |= keys
            yield Step(op.time_ns, len(acked), (op.value["broker"], op.value["queue"]), new)


def _backlogs(steps: Iterator[Step]) -> Iterator[Backlog]:
    """Each runs from the first delivery after its peak until it is worked off."""
    peak = start_ns = middle_ns = 0
    queues: set[tuple[str, int]] = set()
    for step in steps:
        if step.open > peak:
            peak, start_ns, middle_ns = step.open, 0, 0
            queues.clear()
        if step.queue is not None and step.consumed and peak >= PEAK_MIN:
            start_ns = start_ns or step.time_ns
            queues.add(step.queue)
        if start_ns and not middle_ns and step.open <= peak // 2:
            middle_ns = step.time_ns
        if step.open <= peak // DRAINED_SHARE:
            if start_ns and peak >= PEAK_MIN:
                yield Backlog(peak, start_ns, middle_ns, step.time_ns, len(queues))
            peak = start_ns = middle_ns = 0
            queues.clear()
