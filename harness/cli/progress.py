"""Progress of a run on stderr: a live line on a terminal, nothing where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


@contextmanager
def show_progress(time_s: float) -> Iterator[Callable[[str, float], None]]:
    """Yields a callback (phase, seconds of the run's clock)."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:>8}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} virtual s"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("set up", total=time_s)

        def update(phase: str, at_s: float) -> None:
            bar.update(task, description=phase, completed=at_s, total=max(time_s, at_s))

        yield update
