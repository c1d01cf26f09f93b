"""Shared by the commands of `history`: errors as sentences, progress of long work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from staticfire.checkers.model.history import HistoryError, Op
from staticfire.harness.cli.status import BadInput, HarnessError
from staticfire.harness.histories.sources import Source, source_at

EXIT_STATUS = "Exit status: 0 done, 254 bad arguments or a damaged history, 255 harness error."
_STEP = 1 << 12  # ops between two looks at the progress


@contextmanager
def told_errors() -> Iterator[None]:
    """What is wrong with input is BadInput, what cannot be written HarnessError."""
    try:
        yield
    except HistoryError as error:
        raise BadInput(str(error)) from error
    except FileNotFoundError as error:
        raise BadInput(
            f"{error.filename} is not there; give a history or the folder of a run"
        ) from error
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise BadInput(f"{error.filename}: {error.strerror}") from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise HarnessError(f"the machine failed: {error}") from error


def open_source(path: Path) -> Source:
    """Raises HistoryError, OSError."""
    return source_at(path)


def watched(source: Source, what: str) -> Iterator[Op]:
    """The ops of a source; on a terminal a bar on stderr says how far they are."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[ops]} ops"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=source.size, ops=0)
        for number, op in enumerate(source.ops()):
            if not number % _STEP:
                bar.update(task, completed=source.position, ops=number)
            yield op


def say(notes: list[str]) -> None:
    """Sentences on stderr."""
    for note in notes:
        print(f"staticfire: {note}", file=sys.stderr)


def say_torn(source: Source) -> None:
    if source.torn:
        say([f"{source.path} is torn: its last line is not complete"])
