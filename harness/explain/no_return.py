"""The point of no return: the time from which a failure is inevitable, estimated from continuations.

The share of continuations that end with the same fingerprint is a function of the virtual time at which they begin: 0
before the decisive event and 1 after it. Bisection finds the jump. A sequential test decides on which side of the jump
a time lies; if no continuation from the start fails, one trial decides a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import log, sqrt

from staticfire.harness.continuations.rewind import Outcome, Rewind

Z = 1.96  # half the width of a 95 % band, in standard deviations
FIRST = 1  # number of continuations from the start
MORE = 6  # number of further ones if the first one fails
BEHIND = 0.95  # share after the jump that the sequential test assumes
BEFORE_MIN, BEFORE_MAX = 0.05, 0.7  # bounds of the share before the jump that the test assumes
ODDS = 18.0  # odds at which the test decides for a side of the jump
HALFWAY = 0.5  # least share before the jump in the stricter test of the final two sides
TRIALS_MAX = 8  # trials of a sequential test, which then decides for the likelier side
ROUNDING = 1e-9  # tolerance for logarithms of odds
BEGUN_MAX = 4 * TRIALS_MAX  # bound of attempts, some of which cannot be run
TIMES_MAX = 4  # times tried at once in a step
AT_SIDES = 8  # continuations on each side of the jump in the curve
GRID = 8  # parts of the run in the curve
AT_GRID = 4
ALREADY = 0.75  # a share at the start from which the failure counts as inevitable from the start
WIDTH_SHARE = 0.001  # target distance of the two sides of the jump, as a share of the run
BESIDE_NS = 1_000_000  # distance before and after a special moment that a bisection tries

Sample = Callable[[Sequence[Rewind]], Iterable[tuple[Rewind, Outcome]]]


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % band of a share (Wilson's score interval)."""
    if not trials:
        return 0.0, 1.0
    share, z2 = hits / trials, Z * Z
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z * sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials)) / (1 + z2 / trials)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(slots=True)
class Point:
    """Continuations from one virtual time: the number of trials, and of those that end as the run did."""

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
        points: sampled points, by time.
        before_ns: the last tried time from which the run can still pass; None if it could not at the start.
        after_ns: the first tried time from which the failure is inevitable.
        is_complete: whether the bisection has reached its target distance.
        jump_cpu_s: CPU time of the continuations until then.
        failed: number of continuations that could not be run.
        cpu_s: CPU time of all continuations.
    """

    points: list[Point]
    before_ns: int | None
    after_ns: int
    is_complete: bool
    jump_cpu_s: float | None = None
    failed: int = 0
    cpu_s: float = 0.0

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
    """Wald's test between two shares of a point: the one before the jump, or BEHIND.

    Source: Wald, Sequential Tests of Statistical Hypotheses, 1945.

    Attributes:
        before: the share before the jump.
        odds: odds of one share over the other at which the test decides.
    """

    before: float
    odds: float

    @classmethod
    def against(cls, start: Point, least: float) -> SequentialTest:
        """Make a test whose share before the jump is that of the start, but at least `least`."""
        return cls(min(max(start.share, least), BEFORE_MAX), ODDS)

    def leans_behind(self, point: Point) -> bool:
        """Whether the point is more likely after the jump than before it."""
        return self._log_odds(point.same, point.trials) > ROUNDING

    def needed(self, point: Point) -> int:
        """Return the least number of further trials that can decide the point; 0 if it is decided."""
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
    """The time ran out before a continuation ended."""


@dataclass(slots=True)
class Curve:
    """Samples the points of the curve.

    Args:
        sample: runs continuations and yields those that end in time.
        is_same: whether an outcome equals that of the run.
        jobs: number of continuations at once.
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
        """Return a point after at least `trials` continuations. Raises OutOfTime."""
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
        """Return for each of these times whether it lies after the jump. Raises OutOfTime."""
        while wanted := [one for at_ns in times for one in self._needed(at_ns, test)]:
            self._run(wanted)
        return [test.leans_behind(self.points[at_ns]) for at_ns in times]

    def _needed(self, at_ns: int, test: SequentialTest) -> list[tuple[int, int]]:
        begun = self._begun.get(at_ns, 0)
        point = self.points.setdefault(at_ns, Point(at_ns))
        count = min(test.needed(point), BEGUN_MAX - begun)
        return [(at_ns, number) for number in range(begun, begun + count)]

    def fill(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Run a number of trials at each of these times, one after the other. Raises OutOfTime."""
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
    """Bisect for the jump, then fill the curve; when the time is over, return the state reached.

    Args:
        end_ns: end of the run, where it has failed.
        moments: special times, such as those at which faults struck; the bisection tries times beside them first.
        likely: times that the bisection tries first, in this order, while they lie between the sides of the jump.
        fills: whether to sample the rest of the curve, too.
    """
    sides, is_complete = (0, end_ns), False
    jump_cpu_s: float | None = None
    is_open = True  # whether the run could pass at the start
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
    """Return the last tried time before the jump, and the next tried time."""
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
    """Yield closer and closer sides of the jump."""
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
    """Return at most `count` times between the two that divide the moments evenly.

    They lie just before or just after a moment. Without moments they divide the time.
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
