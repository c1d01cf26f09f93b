"""Progress of a run on stderr: a live line on a terminal, and a line now and then in the log of a CI system."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.results.run_status import RunStatus

LOG_EVERY_S = 30.0  # of the wall clock

ReportStatus = Callable[[RunStatus], None]


@contextmanager
def show_progress(campaign: Campaign) -> Iterator[ReportStatus]:
    """Yields a callback that takes the status of the run."""
    console = Console(stderr=True, soft_wrap=True, markup=False)
    unit = "virtual s" if campaign.environment == "simulation" else "s"
    if not console.is_terminal:
        yield line_now_and_then(console.print, campaign.load_s, unit, time.monotonic)
        return
    columns = (
        TextColumn("{task.description:>8}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f} " + unit),
        TextColumn("{task.fields[details]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("set up", total=campaign.load_s, details="")

        def update(status: RunStatus) -> None:
            total = max(campaign.load_s, status.at_s)
            bar.update(
                task,
                description=status.phase,
                completed=status.at_s,
                total=total,
                details=details(status),
            )

        yield update


def line_now_and_then(
    write: Callable[[str], None], time_s: float, unit: str, clock: Callable[[], float]
) -> ReportStatus:
    """A callback that writes a line when LOG_EVERY_S of `clock` have passed since the last; short runs have none."""
    written_s = clock()

    def update(status: RunStatus) -> None:
        nonlocal written_s
        if clock() - written_s >= LOG_EVERY_S:
            written_s = clock()
            total_s = max(time_s, status.at_s)
            write(
                f"{status.phase:>8}  {status.at_s:.0f} of {total_s:.0f} {unit}  {details(status)}"
            )

    return update


def details(status: RunStatus) -> str:
    """Counts, the faults that are on, and the nodes that are not as they should be."""
    parts = [f"{status.acknowledged} acknowledged", f"{status.consumed} consumed"]
    if status.faults:
        kinds = Counter(status.faults)
        named = (kind if count == 1 else f"{count} {kind}" for kind, count in kinds.items())
        parts.append("faults " + ", ".join(named))
    parts += [f"{node} {state}" for node, state in status.nodes.items() if state != "up"]
    return "; ".join(parts)
