"""Shared by the commands of `history`: errors as sentences, progress of long work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from staticfire.checkers.model.history import HistoryError, Op
from staticfire.harness.cli.progress import STEP, working
from staticfire.harness.cli.status import BadInput, of_a_file
from staticfire.harness.histories.sources import Source, source_at


@contextmanager
def errors_as_refusals(target: Path | None = None) -> Iterator[None]:
    """Turn errors of the input into BadInput, and of the output, `target`, into HarnessError."""
    try:
        yield
    except HistoryError as error:
        raise BadInput(str(error)) from error
    except FileNotFoundError as error:
        raise BadInput(
            f"{error.filename} is not there; give a history or the folder of a run"
        ) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise of_a_file(error, target) from error


def open_source(path: Path) -> Source:
    """Raises HistoryError, OSError."""
    return source_at(path)


def watched(source: Source, what: str) -> Iterator[Op]:
    """Yield the ops of a source, and show on stderr the share that was read."""
    with working(what, total=100, unit="%") as progress:
        for number, op in enumerate(source.ops()):
            if not number % STEP:
                share = 100 * source.position / max(source.size, 1)
                progress.update(share, details=f"{number:,} ops")
            yield op


def say(notes: list[str]) -> None:
    """Print sentences on stderr."""
    for note in notes:
        print(f"staticfire: {note}", file=sys.stderr)


def say_torn(source: Source) -> None:
    if source.torn:
        say([f"{source.path} is torn: its last line is not complete"])
