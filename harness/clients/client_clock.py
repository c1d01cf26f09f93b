"""The monotonic clock of one client process, measured against the clock of the run.

An exchange gives a sample: the client said `at_ns` at some instant between the request and its answer. So the offset of
the two clocks is known to within half the round trip (as in NTP), and a little worse as time goes by, because clocks
drift. The best sample counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from staticfire.checkers.model.history import Stamp

SAMPLES: Final = 16  # that are remembered
DRIFT_PPM: Final = 500  # the most that Linux slews a clock by
AHEAD_NS: Final = 1_000_000_000  # no clock drifts that far between two exchanges


class Sample(NamedTuple):
    """At `at_ns` on the client's clock the clock of the run said `run_ns`, give or take `within_ns`."""

    at_ns: int
    run_ns: int
    within_ns: int


class ClientClock:
    """Turns what a client's clock says into times of the run.

    Args:
        now_ns: the clock of the run.
        late_ns: how late the harness may be in reading what clients say, at this time.
        is_ahead: called once if the client stamps an event more than AHEAD_NS after the harness has read it, with by
            how much (ns): either this stamp or the clock that was measured is wrong.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        late_ns: Callable[[], int],
        is_ahead: Callable[[int], None] | None = None,
    ) -> None:
        self.now_ns = now_ns
        self._late_ns = late_ns
        self._is_ahead = is_ahead
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)

    def exchanged(self, asked_ns: int, at_ns: int, answered_ns: int) -> None:
        """Take an exchange: asked and answered on the clock of the run, `at_ns` on the client's."""
        trip_ns = answered_ns - asked_ns
        self._samples.append(Sample(at_ns, asked_ns + trip_ns // 2, (trip_ns + 1) // 2))

    def stamp(self, at_ns: int | None, read_ns: int) -> Stamp | None:
        """When an event happened that the client stamped with `at_ns`, and that was read at `read_ns`.

        Without a stamp of the client, or before the first exchange, it happened while the harness was late in reading.
        None if it was not: then it happened when it was read.
        """
        if at_ns is None or not self._samples:
            return self._unstamped(read_ns)
        run_ns, within_ns = min(
            (_converted(sample, at_ns) for sample in self._samples), key=lambda found: found[1]
        )
        ahead_ns = run_ns - within_ns - read_ns
        if ahead_ns > 0:  # the future: it is another clock than the one measured
            self._samples.clear()
            if ahead_ns > AHEAD_NS and self._is_ahead is not None:
                self._is_ahead(ahead_ns)
                self._is_ahead = None
            return self._unstamped(read_ns)
        return _between(run_ns - within_ns, min(run_ns + within_ns, read_ns))

    def _unstamped(self, read_ns: int) -> Stamp | None:
        late_ns = self._late_ns()
        return _between(read_ns - late_ns, read_ns) if late_ns else None


def _converted(sample: Sample, at_ns: int) -> tuple[int, int]:
    """The time of the run, and what it may be off."""
    drift_ns = abs(at_ns - sample.at_ns) * DRIFT_PPM // 1_000_000
    return sample.run_ns + at_ns - sample.at_ns, sample.within_ns + drift_ns


def _between(earliest_ns: int, latest_ns: int) -> Stamp:
    earliest_ns = max(earliest_ns, 0)
    middle_ns = (earliest_ns + latest_ns) // 2
    return Stamp(middle_ns, latest_ns - middle_ns)
