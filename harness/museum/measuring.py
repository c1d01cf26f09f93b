"""Parts of the commands that measure pieces of the museum one by one, each in a process of its own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from staticfire.harness.defect_loader import VARIABLE, planted
from staticfire.harness.museum.processes import rows_of


def parser_of(
    module: str, description: str | None, budget_s: float, jobs: int
) -> argparse.ArgumentParser:
    """The arguments of `python -m module`: names of pieces, and what each of them may take."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("only", nargs="*", metavar="NAME", help="only these pieces, again")
    parser.add_argument("--budget", type=float, default=budget_s, help="seconds of each piece")
    parser.add_argument("--jobs", type=int, default=jobs, help="processes")
    return parser


def row_of(name: str, worker: str, job: Mapping[str, Any]) -> dict[str, Any] | str:
    """The row that the module `worker` makes of `job` with the piece planted, or why there is none."""
    with planted(name) as folders:
        [row] = rows_of(worker, {"name": name, **job, "cpu_s": 0}, folders, {VARIABLE: name})
    return str(row["failed"]) if "failed" in row else row
