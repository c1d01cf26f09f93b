"""Shared by commands that measure pieces of the museum, each piece in a process of its own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from staticfire.harness.defect_loader import VARIABLE, planted
from staticfire.harness.museum.processes import rows_of


def parser_of(
    module: str, description: str | None, budget_s: float, jobs: int
) -> argparse.ArgumentParser:
    """Return the parser of `python -m module`: names of pieces, and the time for each."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("only", nargs="*", metavar="NAME", help="only these pieces, again")
    parser.add_argument("--budget", type=float, default=budget_s, help="seconds of each piece")
    parser.add_argument("--jobs", type=int, default=jobs, help="processes")
    return parser


def row_of(name: str, worker: str, job: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return the row that the module `worker` makes of `job` with the piece planted, or the reason for none."""
    with planted(name) as folders:
        [row] = rows_of(worker, {"name": name, **job, "cpu_s": 0}, folders, {VARIABLE: name})
    return str(row["failed"]) if "failed" in row else row
