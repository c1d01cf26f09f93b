"""Progress of long work on stderr: one changing line on a terminal, occasional lines in the log of a CI system.

Work that ends within SHOWN_AFTER_S shows nothing. A thread shows the progress, so that work without reports for
minutes still shows the time. The thread ends before the process forks, and begins again with the next report. The bars
of rich do neither: they print no lines in a log, and a fork while their thread runs leaves a lock held.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, TypeVar

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.results.run_status import RunStatus
from staticfire.harness.truncated_repr import printable

SHOWN_AFTER_S = 2.0  # of the wall clock, as all times here
REDRAWN_S = 0.25  # on a terminal
LOG_EVERY_S = 30.0  # elsewhere
BAR_WIDTH = 20  # columns
COLUMNS = 100  # of a terminal that does not report its width
STEP = 1 << 12  # ops between two reports
CLEAR_LINE = "\r\x1b[K"

Clock = Callable[[], float]
Item = TypeVar("Item")
ReportStatus = Callable[[RunStatus], None]


class Progress:
    """The progress of a piece of work.

    Args:
        stream: the stream that shows it; None: none.
        what: the work in a word or two, such as "judging".
        total: the final value of `done`; None if it is not known.
        unit: the unit of both, such as "seeds".
    """

    def __init__(
        self,
        stream: TextIO | None,
        what: str,
        *,
        total: float | None = None,
        unit: str = "",
        clock: Clock = time.monotonic,
    ) -> None:
        self._stream = stream
        self._is_live = stream is not None and _is_live(stream)
        self._what, self._total, self._unit = what, total, unit
        self._done: float | None = None
        self._details = ""
        self._clock = clock
        self._started_s = self._shown_s = clock()
        self._is_drawn = False  # the terminal shows a line that must be cleared
        self._lock = threading.RLock()
        self._ended: threading.Event | None = None  # ends the thread
        self._thread: threading.Thread | None = None

    def update(
        self,
        done: float | None = None,
        *,
        what: str | None = None,
        total: float | None = None,
        details: str | None = None,
    ) -> None:
        """Report progress. Omitted values keep their last value."""
        with self._lock:
            self._done = self._done if done is None else done
            self._what = self._what if what is None else what
            self._total = self._total if total is None else total
            self._details = self._details if details is None else details
        self.show()
        self.begin()

    def show(self) -> None:
        """Draw or log the progress if the interval has passed."""
        with self._lock:
            now_s = self._clock()
            every_s = REDRAWN_S if self._is_live else LOG_EVERY_S
            if now_s - self._started_s < SHOWN_AFTER_S or now_s - self._shown_s < every_s:
                return
            self._shown_s = now_s
            if self._is_live:
                self._write(CLEAR_LINE + self._line()[: _columns() - 1])
                self._is_drawn = True
            else:
                self._write(self._line() + "\n")

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Clear the progress line while the block prints lines of its own; the next report draws it again."""
        self.pause()
        yield

    def begin(self) -> None:
        """Start the thread that shows the progress, unless it runs already."""
        if self._stream is None or self._thread is not None or _shown[-1:] != [self]:
            return
        self._ended = threading.Event()
        every_s = REDRAWN_S if self._is_live else LOG_EVERY_S
        thread = threading.Thread(
            target=self._beat, args=(self._ended, every_s), name="progress", daemon=True
        )
        thread.start()
        self._thread = thread  # assigned after the start: a thread whose start Ctrl-C prevented cannot be joined

    def pause(self) -> None:
        """End the thread and clear the line."""
        thread, self._thread = self._thread, None
        if self._ended is not None:
            self._ended.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._lock:
            self._clear()

    def _beat(self, ended: threading.Event, every_s: float) -> None:
        while not ended.wait(every_s):
            self.show()

    def _clear(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._write(CLEAR_LINE)

    def _write(self, text: str) -> None:
        assert self._stream is not None
        with suppress(OSError, ValueError):  # the terminal is closed; that is no reason to stop
            self._stream.write(text)
            self._stream.flush()

    def _line(self) -> str:
        parts = [f"{self._what:<9}"]
        is_share = self._total and self._done is not None
        if is_share and self._is_live:
            assert self._total is not None
            assert self._done is not None
            full = min(int(BAR_WIDTH * self._done / self._total), BAR_WIDTH)
            parts.append(f"[{'#' * full}{'.' * (BAR_WIDTH - full)}]")
        parts.append(f"{self._clock() - self._started_s:.0f} s")
        if self._done is not None:
            of = f" of {self._total:,.0f}" if is_share else ""
            parts.append(f"{self._done:,.0f}{of} {self._unit}".rstrip())
        if self._details:
            parts.append(self._details)
        return printable("  ".join(parts))


# On a terminal the last line has replaced those before it.
_shown: list[Progress] = []


@contextmanager
def working(
    what: str, *, total: float | None = None, unit: str = "", forks: bool = False
) -> Iterator[Progress]:
    """Show the progress of the block on stderr.

    Args:
        what, total, unit: as for Progress.
        forks: whether the block starts processes first, so that nothing is shown before the first report.
    """
    progress = Progress(sys.stderr, what, total=total, unit=unit)
    if _shown:
        _shown[-1].pause()
    _shown.append(progress)
    try:
        if not forks:
            progress.begin()
        yield progress
    finally:
        progress.pause()
        _shown.remove(progress)


def begin_shown() -> None:
    """Show the progress of the innermost block from now on. All its processes must have started."""
    for progress in _shown[-1:]:
        progress.begin()


def counted(items: Iterable[Item], progress: Progress) -> Iterator[Item]:
    """Yield the items and report the count every STEP items."""
    for number, item in enumerate(items):
        if not number % STEP:
            progress.update(number)
        yield item


def _pause_shown() -> None:
    for progress in _shown:
        progress.pause()


os.register_at_fork(before=_pause_shown, after_in_child=_shown.clear)


def _is_live(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _columns() -> int:
    """Return the width of the terminal behind stderr, in columns."""
    try:
        return os.get_terminal_size(sys.__stderr__.fileno()).columns or COLUMNS  # type: ignore[union-attr]
    except (OSError, ValueError, AttributeError):
        return shutil.get_terminal_size((COLUMNS, 24)).columns


@contextmanager
def show_progress(campaign: Campaign) -> Iterator[ReportStatus]:
    """Yield a callback that takes the status of a run."""
    unit = "virtual s" if campaign.environment == "simulation" else "s"
    with working("set up", total=campaign.load_s, unit=unit) as progress:

        def update(status: RunStatus) -> None:
            progress.update(
                status.at_s,
                what=status.phase,
                total=max(campaign.load_s, status.at_s),
                details=details(status),
            )

        yield update


def details(status: RunStatus) -> str:
    """Return counts, the faults that are on, and the nodes that are not up."""
    parts = [f"{status.acknowledged} acknowledged", f"{status.consumed} consumed"]
    if status.faults:
        kinds = Counter(status.faults)
        named = (kind if count == 1 else f"{count} {kind}" for kind, count in kinds.items())
        parts.append("faults " + ", ".join(named))
    parts += [f"{node} {state}" for node, state in status.nodes.items() if state != "up"]
    return "; ".join(parts)
