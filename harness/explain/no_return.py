"""The point of no return: when a failure became inevitable, from the outcomes of continuations.

The share of continuations that end with the same fingerprint is a function of the virtual time at which they begin: 0
before the decisive event and 1 behind it. Where it jumps is found by bisection. A sequential test decides on
which side of the jump a time lies: if no continuation from the start fails, one is enough for a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import log, sqrt

from staticfire.harness.continuations.rewind import Outcome, Rewind

Z = 1.96  # of a band that holds the share in 95 of 100 cases
FIRST = 1  # continuation from the beginning
MORE = 6  # if it fails
BEHIND = 0.95  # what the sequential test takes for the share behind the jump
BEFORE_MIN, BEFORE_MAX = 0.05, 0.7  # and the bounds of what it takes for the share before it
ODDS = 18.0  # how much likelier one side of the jump must be than the other
HALFWAY = 0.5  # the sides that it ends with are tried until a share of this would be as unlikely
TRIALS_MAX = 8  # of a sequential test; the likelier side is taken then
ROUNDING = 1e-9  # of logarithms of odds
BEGUN_MAX = 4 * TRIALS_MAX  # the same if some continuations cannot be run
TIMES_MAX = 4  # tried at once in a step
AT_SIDES = 8  # continuations on both sides of the jump in the curve
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


@dataclass(frozen=True, slots=True)
class SequentialTest:
    """Wald's test of which share a point has: that before the jump, or BEHIND.

    Source: Wald, Sequential Tests of Statistical Hypotheses, 1945.

    Attributes:
        before: the share before the jump.
        odds: how much likelier one of the two must be than the other.
    """

    before: float
    odds: float

    @classmethod
    def against(cls, start: Point, least: float) -> SequentialTest:
        """The share before the jump is that of the start, or `least` if that is more."""
        return cls(min(max(start.share, least), BEFORE_MAX), ODDS)

    def leans_behind(self, point: Point) -> bool:
        """Whether it is likelier that the point lies behind the jump."""
        return self._log_odds(point.same, point.trials) > ROUNDING

    def needed(self, point: Point) -> int:
        """How many more trials decide at the earliest; 0: the point is decided."""
        more = 0
        while point.trials + more < TRIALS_MAX:
            for same in (0, more):
                found = self._log_odds(point.same + same, point.trials + more)
                if abs(found) >= log(self.odds):
                    return more
            more += 1
        return more

    def _log_odds(self, same: int, trials: int) -> float:
        hit, miss = log(BEHIND / self.before), log((1 - BEHIND) / (1 - self.before))
        return same * hit + (trials - same) * miss


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

    def are_behind(self, times: Sequence[int], test: SequentialTest) -> list[bool]:
        """Whether each of these times lies behind the jump. Raises OutOfTime."""
        while wanted := [one for at_ns in times for one in self._needed(at_ns, test)]:
            self._run(wanted)
        return [test.leans_behind(self.points[at_ns]) for at_ns in times]

    def _needed(self, at_ns: int, test: SequentialTest) -> list[tuple[int, int]]:
        begun = self._begun.get(at_ns, 0)
        point = self.points.setdefault(at_ns, Point(at_ns))
        count = min(test.needed(point), BEGUN_MAX - begun)
        return [(at_ns, number) for number in range(begun, begun + count)]

    def fill(self, wanted: Iterable[tuple[int, int]]) -> None:
        """So many trials at each of these times, one after the other. Raises OutOfTime."""
        for at_ns, trials in wanted:
            self.more(at_ns, trials)


def find_no_return(
    curve: Curve,
    end_ns: int,
    moments: Sequence[int],
    likely: Sequence[int] = (),
    *,
    fills: bool = True,
) -> NoReturn:
    """Bisect for the jump, then fill the curve; what there is when the time is over is the answer.

    Args:
        end_ns: of the run, from where on it has failed.
        moments: times that stand out, such as those at which faults struck: the jump is looked for beside them first.
        likely: times that are tried first, in this order, if they can still be a side of the jump.
        fills: whether the rest of the curve is wanted, too.
    """
    sides, is_complete = (0, end_ns), False
    jump_cpu_s: float | None = None
    is_open = True  # whether it could be escaped at the start
    try:
        start = curve.more(0, FIRST)
        if start.same:
            start = curve.more(0, MORE)
        is_open = start.share < ALREADY
        test = SequentialTest.against(start, BEFORE_MIN)
        test_of_sides = SequentialTest.against(start, HALFWAY)
        while is_open and not is_complete:
            for nearer in _bisected(curve, sides, end_ns, moments, likely, test):
                sides = nearer
            inner = [at_ns for at_ns in sides if at_ns < end_ns]
            curve.are_behind(inner, test_of_sides)
            checked = _sides(curve, end_ns, test_of_sides)
            is_complete, sides = checked == sides, checked
        is_complete = True
        jump_cpu_s = curve.cpu_s
        if fills:
            curve.fill((at_ns, AT_SIDES) for at_ns in (0, *sides) if is_open and at_ns < end_ns)
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


def _sides(curve: Curve, end_ns: int, test: SequentialTest) -> tuple[int, int]:
    """The last time that does not lie behind the jump, and the next one that was tried."""
    tried = sorted(at_ns for at_ns, point in curve.points.items() if point.trials)
    before = max(
        at_ns for at_ns in tried if not at_ns or not test.leans_behind(curve.points[at_ns])
    )
    return before, min([at_ns for at_ns in tried if at_ns > before], default=end_ns)


def _bisected(
    curve: Curve,
    sides: tuple[int, int],
    end_ns: int,
    moments: Sequence[int],
    likely: Sequence[int],
    test: SequentialTest,
) -> Iterator[tuple[int, int]]:
    """Nearer and nearer sides of the jump."""
    low, high = sides
    width_ns = max(int(end_ns * WIDTH_SHARE), 2 * BESIDE_NS)
    while high - low > width_ns:
        first = next((at_ns for at_ns in likely if low < at_ns < high), None)
        times = (
            _between(low, high, moments, min(curve.jobs, TIMES_MAX)) if first is None else [first]
        )
        for at_ns, is_behind in zip(times, curve.are_behind(times, test), strict=True):
            if is_behind:
                high = at_ns
                break
            low = at_ns
        yield low, high


def _between(low: int, high: int, moments: Sequence[int], count: int) -> list[int]:
    """At most so many times that divide the moments between the two evenly; without any, the time.

    They lie just before or just behind a moment.
    """
    beside = sorted(
        {
            at_ns
            for moment in moments
            for at_ns in (moment - BESIDE_NS, moment + BESIDE_NS)
            if low < at_ns < high
        }
    )
    parts = range(1, count + 1)
    if beside:
        return sorted({beside[len(beside) * part // (count + 1)] for part in parts})
    return [low + (high - low) * part // (count + 1) for part in parts]
