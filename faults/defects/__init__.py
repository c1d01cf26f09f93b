"""Planted bugs: each is a unified diff of a few lines against `system_under_test/`, with metadata beside it.

A defect often is the reverse of an upstream fix. The system's code has no switches for defects: `plant` copies the
system and applies the diff, and the run imports the copy.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from staticfire.faults.defects.diffs import SYSTEM, DiffError, apply_diff

__all__ = [
    "DEFECTS",
    "HERE",
    "SYSTEM",
    "TIERS",
    "Defect",
    "DefectError",
    "Museum",
    "copy_system",
    "defect_named",
    "plant",
]

HERE = Path(__file__).parent
SUFFIX = ".diff"
TIERS = {
    "S": "a real bug that loses, repeats or hides acknowledged messages, shown by a fault",
    "A": "a real bug that needs a rarer coincidence",
    "B": "a real bug with less damage, or in one feature",
    "M": "one reversed decision of the system",
}


class DefectError(ValueError):
    """A defect is unknown, or its diff cannot be read or does not apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A planted bug: a piece of the museum, or a diff alone, which has no recipe.

    Attributes:
        name: name of the piece, or path of the diff.
        source: RocketMQ issue or class.
        tier: see TIERS.
        checkers: checkers that can find it; the first one does whenever the run is invalid.
        base: named campaign of its recipe; empty: none.
        campaign: further options of a campaign that shows it.
        cause: kinds of the faults that seal the failure in its recipe, in order; "a|b": either kind; None: not known.
        changes: later changes of `checkers`, each with its reason.
        conform: clauses of the conformance suite that it breaks.
        not_by_conformance: why it breaks no clause; empty if it breaks some.
        not_found: why no campaign has shown it; empty if its recipe does.
        store_crashes: cycles of `staticfire crash-store` that show it if no campaign does; 0: campaigns do.
    """

    name: str
    diff: bytes
    title: str
    source: str = ""
    tier: str = ""
    checkers: tuple[str, ...] = ()
    base: str = ""
    campaign: dict[str, object] = field(default_factory=dict)
    cause: tuple[str, ...] | None = None
    changes: tuple[str, ...] = ()
    conform: tuple[str, ...] = ()
    not_by_conformance: str = ""
    not_found: str = ""
    store_crashes: int = 0


class Museum(Mapping[str, Defect]):
    """The defects of a folder, in the order of their names. The file of a defect is read on first access."""

    def __init__(self, folder: Path) -> None:
        self._paths = {path.stem: path for path in sorted(folder.glob("*.toml"))}
        self._read: dict[str, Defect] = {}

    def __getitem__(self, name: str) -> Defect:
        """Raises DefectError if the file does not describe a defect."""
        if name not in self._read:
            self._read[name] = _read(self._paths[name])
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def _read(path: Path) -> Defect:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    said: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    diff = path.with_suffix(SUFFIX).read_bytes()
    try:
        return Defect(name=path.stem, diff=diff, **said)
    except TypeError as error:  # an unknown or a missing key
        raise DefectError(f"{path.name} does not describe a defect: {error}") from error


DEFECTS = Museum(HERE)


def defect_named(name: str) -> Defect:
    """Return a piece of the museum, or the defect of a diff file, which has no recipe.

    Raises DefectError for an unknown name, with the known names, and for a file that cannot be read.
    """
    if name in DEFECTS:
        return DEFECTS[name]
    if not name.endswith(SUFFIX):
        raise DefectError(
            f"unknown defect {name!r}, and not a {SUFFIX} file; there are: {', '.join(DEFECTS)}"
        )
    try:
        diff = Path(name).read_bytes()
    except OSError as error:
        raise DefectError(f"the diff {name!r} cannot be read: {error.strerror}") from error
    return Defect(name=name, diff=diff, title=f"the diff {Path(name).name}")


def plant(defect: Defect, system: Path, folder: Path) -> Path:
    """Copy the package at `system` into `folder`, apply the diff, and return the copy.

    Raises DefectError, with the hunk and the reason, if the diff does not apply to every file that it names.
    """
    copy = copy_system(system, folder)
    try:
        apply_diff(defect.diff.decode("utf-8", "replace"), folder)
    except DiffError as error:
        raise DefectError(
            f"the diff of defect {defect.name} does not apply to {SYSTEM}: {error}"
        ) from error
    return copy


def copy_system(system: Path, folder: Path) -> Path:
    """Copy the package at `system`, with this interpreter's byte code, into `folder`; return the copy."""
    copy = folder / SYSTEM
    shutil.copytree(system, copy, ignore=_of_other_interpreters)
    return copy


def _of_other_interpreters(folder: str, names: list[str]) -> list[str]:
    """Return the files of a `__pycache__` folder to leave out: byte code of other interpreters, unfinished files."""
    if Path(folder).name != "__pycache__":
        return []
    return [name for name in names if not name.endswith(f".{sys.implementation.cache_tag}.pyc")]
