"""Planted bugs: each a unified diff of a few lines against `system_under_test/`, with metadata beside it.

A defect looks like the upstream fix read backwards. The system's own code carries no switches: `plant` copies it,
applies the diff, and the run imports the copy.
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import patch_ng

HERE = Path(__file__).parent
SYSTEM = "system_under_test"
_TARGET = f"+++ b/{SYSTEM}/"


class DefectError(ValueError):
    """An unknown defect, or one whose diff no longer applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    name: str
    title: str
    source: str  # RocketMQ issue or class
    tier: str
    checkers: tuple[
        str, ...
    ]  # those that can find it; the first one does whenever the run is invalid
    base: str  # the named campaign of its recipe; "" for none
    campaign: dict[str, Any]  # further options of a campaign in which it shows
    # The faults that seal the failure in its recipe, in this order; "a|b": either kind. (): none; None: not said.
    cause: tuple[str, ...] | None
    store_crashes: int  # cycles of `staticfire crash-store` that show it where no campaign does; 0: campaigns do

    @property
    def diff(self) -> bytes:
        return (HERE / f"{self.name}.diff").read_bytes()


def _load() -> dict[str, Defect]:
    found = {}
    for path in sorted(HERE.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        found[path.stem] = Defect(
            name=path.stem,
            title=table["title"],
            source=table["source"],
            tier=table["tier"],
            checkers=tuple(table["checkers"]),
            base=table.get("base", ""),
            campaign=table.get("campaign", {}),
            cause=tuple(table["cause"]) if "cause" in table else None,
            store_crashes=table.get("store_crashes", 0),
        )
    return found


DEFECTS: dict[str, Defect] = _load()


def defect_named(name: str) -> Defect:
    """Raises DefectError for an unknown name, with the names there are."""
    if name not in DEFECTS:
        raise DefectError(f"unknown defect {name!r}; there are: {', '.join(DEFECTS)}")
    return DEFECTS[name]


def plant(defect: Defect, system: Path, folder: Path) -> Path:
    """Copy the package at `system` into `folder`, apply the diff, return the copy.

    Raises DefectError if the diff does not apply to every file it names.
    """
    copy = folder / SYSTEM
    shutil.copytree(system, copy, ignore=shutil.ignore_patterns("__pycache__"))
    patches = patch_ng.fromstring(defect.diff)
    for patch in patches or ():
        _check_inside(defect, patch)
    if (
        not patches
        or not patches.apply(strip=1, root=str(folder))
        or not _differs(defect, folder, system)
    ):
        raise DefectError(f"the diff of defect {defect.name} does not apply to {SYSTEM}")
    return copy


def _check_inside(defect: Defect, patch: Any) -> None:
    """Raises DefectError if one file of a diff is not of the system."""
    for name in (patch.source, patch.target):
        parts = name.decode("utf-8", "replace").split("/")
        if parts[:1] + parts[1:2] not in (["a", SYSTEM], ["b", SYSTEM]) or ".." in parts:
            raise DefectError(
                f"the diff of defect {defect.name} names {'/'.join(parts)!r}; allowed: files of {SYSTEM}"
            )


def _differs(defect: Defect, folder: Path, system: Path) -> bool:
    """Whether every file that the diff names was changed: patch_ng skips what looks patched already."""
    names = [
        line.removeprefix(_TARGET)
        for line in defect.diff.decode().splitlines()
        if line.startswith(_TARGET)
    ]
    return all(
        (folder / SYSTEM / name).read_bytes() != (system / name).read_bytes() for name in names
    )
