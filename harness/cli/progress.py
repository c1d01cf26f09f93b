"""Progress of a run on stderr: a live line on a terminal, nothing where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from harness.campaign import Campaign
from harness.run_status import RunStatus


@contextmanager
def show_progress(campaign: Campaign) -> Iterator[Callable[[RunStatus], None]]:
    """Yields a callback that takes the status of the run."""
    console = Console(stderr=True)
    seconds = "virtual s" if campaign.environment == "simulation" else "s"
    columns = (
        TextColumn("{task.description:>8}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f} " + seconds),
        TextColumn("{task.fields[details]}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("set up", total=campaign.time_s, details="")

        def update(status: RunStatus) -> None:
            total = max(campaign.time_s, status.at_s)
            bar.update(
                task,
                description=status.phase,
                completed=status.at_s,
                total=total,
                details=details(status),
            )

        yield update


def details(status: RunStatus) -> str:
    """Counts, the faults that are on, and the nodes that are not as they should be."""
    parts = [f"{status.acknowledged} acknowledged", f"{status.consumed} consumed"]
    if status.faults:
        parts.append("faults " + ", ".join(status.faults))
    parts += [f"{node} {state}" for node, state in status.nodes.items() if state != "up"]
    return "; ".join(parts)
