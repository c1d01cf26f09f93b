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

from staticfire.faults.defects.diffs import SYSTEM, DiffError, apply_diff

__all__ = [
    "DEFECTS",
    "HERE",
    "SYSTEM",
    "TIERS",
    "Defect",
    "DefectError",
    "copy_system",
    "defect_named",
    "plant",
]

HERE = Path(__file__).parent
TIERS = {
    "S": "a real bug that loses, repeats or hides what was acknowledged, shown by a fault",
    "A": "a real bug that needs a rarer coincidence",
    "B": "a real bug of smaller damage, or of one feature",
    "M": "one decision of the system the other way round",
}


class DefectError(ValueError):
    """An unknown defect, or one whose diff no longer applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    name: str
    title: str
    source: str  # RocketMQ issue or class
    tier: str  # see TIERS
    checkers: tuple[
        str, ...
    ]  # those that can find it; the first one does whenever the run is invalid
    base: str  # the named campaign of its recipe; "" for none
    campaign: dict[str, Any]  # further options of a campaign in which it shows
    # The faults that seal the failure in its recipe, in this order; "a|b": either kind. (): none; None: not said.
    cause: tuple[str, ...] | None
    changes: tuple[str, ...]  # of `checkers` after the first run, each with its reason
    conform: tuple[str, ...]  # clauses of the conformance suite that it breaks
    not_by_conformance: str  # why it breaks none; empty if it breaks some
    not_found: str  # why no campaign has shown it; empty if its recipe does
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
            changes=tuple(table.get("changes", ())),
            conform=tuple(table.get("conform", ())),
            not_by_conformance=table.get("not_by_conformance", ""),
            not_found=table.get("not_found", ""),
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

    Raises DefectError if the diff does not apply to every file it names, with the hunk and why.
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
    """Copy the package at `system` into `folder`; return the copy."""
    copy = folder / SYSTEM
    shutil.copytree(system, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy
