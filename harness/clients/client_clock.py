"""The monotonic clock of one client process, measured against the clock of the run.

An exchange gives a sample: the client read `at_ns` at some instant between the request and its answer. So the offset of
the two clocks is known to within half the round trip (as in NTP). It gets a little less certain with time, because
clocks drift. The best sample counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from staticfire.checkers.model.history import Stamp

SAMPLES: Final = 16  # kept samples
DRIFT_PPM: Final = 500  # the most that Linux slews a clock by
AHEAD_NS: Final = 1_000_000_000  # no clock drifts that far between two exchanges


class Sample(NamedTuple):
    """A pair of readings: at `at_ns` of the client's clock the clock of the run read `run_ns`, within `within_ns`."""

    at_ns: int
    run_ns: int
    within_ns: int


class ClientClock:
    """Converts readings of a client's clock into times of the run.

    Args:
        now_ns: the clock of the run.
        late_ns: how late the harness may be in reading clients' lines at this time.
        is_ahead: called once, with the difference in ns, if the client stamps an event more than AHEAD_NS after the
            harness has read it: either the stamp or the measured clock is wrong.
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
        """Take an exchange: request and answer by the clock of the run, `at_ns` by the client's."""
        trip_ns = answered_ns - asked_ns
        self._samples.append(Sample(at_ns, asked_ns + trip_ns // 2, (trip_ns + 1) // 2))

    def stamp(self, at_ns: int | None, read_ns: int) -> Stamp | None:
        """Return the time of an event that the client stamped with `at_ns` and the harness read at `read_ns`.

        Without a stamp, or before the first exchange, the event lies within the time by which the harness was late.
        Returns None if the harness was not late either: then the event has the time at which it was read.
        """
        if at_ns is None or not self._samples:
            return self._unstamped(read_ns)
        run_ns, within_ns = min(
            (_converted(sample, at_ns) for sample in self._samples), key=lambda found: found[1]
        )
        ahead_ns = run_ns - within_ns - read_ns
        if ahead_ns > 0:  # in the future, so the stamp is not of the measured clock
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
    """Return the time of the run, and its uncertainty."""
    drift_ns = abs(at_ns - sample.at_ns) * DRIFT_PPM // 1_000_000
    return sample.run_ns + at_ns - sample.at_ns, sample.within_ns + drift_ns


def _between(earliest_ns: int, latest_ns: int) -> Stamp:
    earliest_ns = max(earliest_ns, 0)
    middle_ns = (earliest_ns + latest_ns) // 2
    return Stamp(middle_ns, latest_ns - middle_ns)
