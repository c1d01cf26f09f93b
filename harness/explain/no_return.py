"""The point of no return: when a failure became inevitable, from the outcomes of continuations.

The share of continuations that end with the same fingerprint is a function of the virtual time at which they begin: 0
before the decisive event and 1 behind it. Where it jumps is found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt

from staticfire.harness.continuations.rewind import Outcome, Rewind

Z = 1.96  # of a band that holds the share in 95 of 100 cases
FIRST = 2  # continuations from a time, if they agree
MORE = 6  # if they do not, and from the beginning if they all fail
AT_SIDES = 8  # before and behind the jump
GRID = 8  # parts of the run in the curve
AT_GRID = 4
ALREADY = 0.75  # a share at the start from which on the failure is inevitable as it is
WIDTH_SHARE = 0.001  # of the run: how near the two sides of the jump come
BESIDE_NS = 1_000_000  # how far beside a moment that stands out a bisection looks

Sample = Callable[[Sequence[Rewind]], Iterable[tuple[Rewind, Outcome]]]


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """The 95 % band of a share (Wilson's score interval)."""
    if not trials:
        return 0.0, 1.0
    share, z2 = hits / trials, Z * Z
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z * sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials)) / (1 + z2 / trials)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(slots=True)
class Point:
    """Continuations from one virtual time: how many were run, and how many end as the run did."""

    at_ns: int
    trials: int = 0
    same: int = 0

    @property
    def share(self) -> float:
        return self.same / self.trials if self.trials else 0.0

    def to_json(self) -> dict[str, object]:
        low, high = wilson(self.same, self.trials)
        return {
            "at_ns": self.at_ns,
            "trials": self.trials,
            "same": self.same,
            "low": round(low, 4),
            "high": round(high, 4),
        }


@dataclass(slots=True, kw_only=True)
class NoReturn:
    """The curve and its jump.

    Attributes:
        points: by time.
        before_ns: the side of the jump from which the failure can still be escaped; None if it never could.
        after_ns: the side from which it cannot.
        is_complete: whether the two sides are as near to each other as they are to come.
        jump_cpu_s: of the continuations until the two sides were so near.
        failed: continuations that could not be run.
        cpu_s: of all continuations.
    """

    points: list[Point]
    before_ns: int | None
    after_ns: int
    is_complete: bool
    jump_cpu_s: float | None = None
    failed: int = 0
    cpu_s: float = 0.0

    def at(self, at_ns: int) -> Point:
        return next(point for point in self.points if point.at_ns == at_ns)

    def to_json(self) -> dict[str, object]:
        return {
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
            "is_complete": self.is_complete,
            "continuations": sum(point.trials for point in self.points),
            "failed": self.failed,
            "cpu_s": round(self.cpu_s, 1),
            "jump_cpu_s": None if self.jump_cpu_s is None else round(self.jump_cpu_s, 1),
            "points": [point.to_json() for point in self.points],
        }


class OutOfTime(Exception):
    """A continuation was given up."""


@dataclass(slots=True)
class Curve:
    """Samples points.

    Args:
        sample: runs continuations; those that it gives up are missing in its answer.
        is_same: whether an outcome is that of the run.
        jobs: continuations at once.
    """

    sample: Sample
    is_same: Callable[[Outcome], bool]
    jobs: int
    draws_faults: bool = False
    points: dict[int, Point] = field(default_factory=dict)
    failed: int = 0
    cpu_s: float = 0.0
    _begun: dict[int, int] = field(default_factory=dict)

    def more(self, at_ns: int, trials: int) -> Point:
        """The point with at least so many trials. Raises OutOfTime."""
        begun = self._begun.get(at_ns, 0)
        self._run([(at_ns, number) for number in range(begun, trials)])
        return self.points[at_ns]

    def _run(self, wanted: Sequence[tuple[int, int]]) -> None:
        rewinds = [Rewind(at_ns, number, self.draws_faults) for at_ns, number in wanted]
        for at_ns, number in wanted:
            self.points.setdefault(at_ns, Point(at_ns))
            self._begun[at_ns] = max(self._begun.get(at_ns, 0), number + 1)
        ended = 0
        for rewind, outcome in self.sample(rewinds):
            ended += 1
            self.cpu_s += outcome.cpu_s
            if outcome.failed:
                self.failed += 1
                continue
            point = self.points[rewind.at_ns]
            point.trials += 1
            point.same += self.is_same(outcome)
        if ended < len(rewinds):
            raise OutOfTime

    def settled(self, at_ns: int, threshold: float) -> bool:
        """Whether the share there is above the threshold: a few continuations, or more if they disagree."""
        point = self.more(at_ns, FIRST)
        if 0 < point.same < point.trials:
            point = self.more(at_ns, MORE)
        return point.share > threshold

    def fill(self, wanted: Iterable[tuple[int, int]]) -> None:
        """So many trials at each of these times, one after the other. Raises OutOfTime."""
        for at_ns, trials in wanted:
            self.more(at_ns, trials)


def find_no_return(
    curve: Curve, end_ns: int, moments: Sequence[int], likely_ns: int | None = None
) -> NoReturn:
    """Bisect for the jump, then fill the curve; what there is when the time is over is the answer.

    Args:
        end_ns: of the run, from where on it has failed.
        moments: times that stand out, such as those at which faults struck: the jump is looked for beside them first.
        likely_ns: a time at which the failure was there, as far as one can tell before.
    """
    sides, is_complete = (0, end_ns), False
    jump_cpu_s: float | None = None
    is_open = True  # whether it could be escaped at the start
    try:
        start = curve.more(0, FIRST)
        if start.same:
            start = curve.more(0, MORE)
        is_open = start.share < ALREADY
        while is_open and not is_complete:
            threshold = (start.share + 1) / 2
            for nearer in _bisected(curve, sides, end_ns, moments, likely_ns, threshold):
                sides = nearer
            jump_cpu_s = jump_cpu_s or curve.cpu_s
            curve.fill((at_ns, AT_SIDES) for at_ns in sides if at_ns < end_ns)
            checked = _sides(curve, end_ns, threshold)
            is_complete, sides = checked == sides, checked
        is_complete = True
        curve.fill([(0, AT_SIDES)])
        curve.fill((end_ns * part // GRID, AT_GRID) for part in range(1, GRID))
    except OutOfTime:
        pass
    points = [curve.points[at_ns] for at_ns in sorted(curve.points) if curve.points[at_ns].trials]
    return NoReturn(
        points=points,
        before_ns=sides[0] if is_open else None,
        after_ns=sides[1] if is_open else 0,
        is_complete=is_complete,
        jump_cpu_s=jump_cpu_s,
        failed=curve.failed,
        cpu_s=curve.cpu_s,
    )


def _sides(curve: Curve, end_ns: int, threshold: float) -> tuple[int, int]:
    """The last time whose share is not above the threshold, and the next one that was looked at."""
    known = sorted(curve.points.values(), key=lambda point: point.at_ns)
    before = max(point.at_ns for point in known if not point.at_ns or point.share <= threshold)
    return before, min([point.at_ns for point in known if point.at_ns > before], default=end_ns)


def _bisected(
    curve: Curve,
    sides: tuple[int, int],
    end_ns: int,
    moments: Sequence[int],
    likely_ns: int | None,
    threshold: float,
) -> Iterator[tuple[int, int]]:
    """Nearer and nearer sides of the jump."""
    low, high = sides
    width_ns = max(int(end_ns * WIDTH_SHARE), 2 * BESIDE_NS)
    while high - low > width_ns:
        if likely_ns is not None and low < likely_ns + BESIDE_NS < high:
            middle, likely_ns = likely_ns + BESIDE_NS, None
        else:
            middle = _split(low, high, moments)
        if curve.settled(middle, threshold):
            high = middle
        else:
            low = middle
        yield low, high


def _split(low: int, high: int, moments: Sequence[int]) -> int:
    """Just before or just behind the middle one of the moments between the two; without any, the middle."""
    beside = sorted(
        at_ns
        for moment in moments
        for at_ns in (moment - BESIDE_NS, moment + BESIDE_NS)
        if low < at_ns < high
    )
    return beside[len(beside) // 2] if beside else (low + high) // 2
