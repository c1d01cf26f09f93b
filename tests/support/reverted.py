"""Runs commands against our system with a fix taken back: a copy of it to which a reverse diff was applied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import staticfire
from staticfire.faults.defects.diffs import apply_diff

FACE = Path(staticfire.__file__).parent
SYSTEM = "system_under_test"


def reverted(diff: Path, folder: Path) -> Path:
    """A folder for the beginning of an import path, which holds the system without the fix.

    The diff names files as `a/system_under_test/...`. DiffError if it does not apply.
    """
    package = folder / FACE.name
    package.mkdir(parents=True)
    for part in FACE.glob("*.py"):
        shutil.copy(part, package)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree((FACE / SYSTEM).resolve(), package / SYSTEM, ignore=ignored)
    apply_diff(diff.read_text(encoding="utf-8"), package)
    return folder


def staticfire_at(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line against the system in that folder."""
    paths = [str(folder), str(FACE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-P", "-m", "staticfire", *map(str, arguments)]
    return subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=600, check=False
    )
