"""The version of this Staticfire: its number, the commit of its checkout, its Python, and whether it is compiled."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from staticfire.harness.compiled import compiled_parts

ROOT = Path(__file__).resolve().parents[1]
GIT_TIMEOUT_S = 10.0


def versions() -> dict[str, str]:
    """Return `staticfire`, `python`, the `compiled` parts, and `commit` if the package runs from a checkout."""
    found = {"staticfire": _package_version(), "python": platform.python_version()}
    if parts := compiled_parts():
        found["compiled"] = ", ".join(parts)
    commit = commit_of(ROOT)
    return found if commit is None else {**found, "commit": commit}


def version_line() -> str:
    """Return `0.1.0 (1a2b3c4d5e6f-dirty), Python 3.11.7`, and if so `, compiled: simulation, system`."""
    found = versions()
    commit = f" ({found['commit']})" if "commit" in found else ""
    compiled = f", compiled: {found['compiled']}" if "compiled" in found else ""
    return f"{found['staticfire']}{commit}, Python {found['python']}{compiled}"


def _package_version() -> str:
    try:
        return version("staticfire")
    except PackageNotFoundError:  # the package is not installed
        return "unknown"


@cache
def commit_of(root: Path) -> str | None:
    """Return the commit checked out at `root`, with `-dirty` if tracked files differ; None if there is none."""
    if not (root / ".git").exists():
        return None
    command = ("git", "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=12")
    # Without GIT_ variables, which in a git hook name another repository.
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            (*command, "--exclude=*"),
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
