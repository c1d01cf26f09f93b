"""Reads and writes the measured figures of all pieces, from which the page is made."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from staticfire.harness.museum.figures import write_figures
from staticfire.harness.museum.searches import Search

DATA = Path("docs/data/museum.json")


@dataclass(slots=True, kw_only=True)
class Measured:
    """The figures of one piece: of its search by recipe, the blind one, and the guided one."""

    recipe: Search = field(default_factory=Search)
    blind: Search = field(default_factory=Search)
    guided: Search = field(default_factory=Search)


def read_measured(path: Path = DATA) -> dict[str, Measured]:
    """Return figures by the name of the piece; {} if the file does not exist. Raises OSError, ValueError."""
    if not path.exists():
        return {}
    return {
        name: Measured(**{way: Search(**figures) for way, figures in row.items()})
        for name, row in orjson.loads(path.read_bytes()).items()
    }


def write_measured(measured: dict[str, Measured], path: Path = DATA) -> None:
    """Write all figures; see `write_figures`."""
    write_figures(path, measured)


@contextmanager
def locked(path: Path = DATA) -> Iterator[None]:
    """Lock the file for this process."""
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
