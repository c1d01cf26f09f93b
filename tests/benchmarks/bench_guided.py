"""CPU seconds until a hunt finds a planted bug: all seeds drawn (blind), and the same seeds with every other one bred.

    PYTHONPATH=. python tests/benchmarks/bench_guided.py [NAME ...] [--seeds 64] [--guided-seeds 128]

Each bug has the workload of its recipe; all other options and the faults are drawn. The first generation of a guided
hunt is drawn, too, so a bug that falls within it costs both the same, and no guided hunt is run for it. A line is
printed for each bug as soon as it is measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import orjson

from staticfire.faults.defects import DEFECTS
from staticfire.harness.cli.hunt.breeding import GENERATION
from staticfire.harness.museum.worker import recipe_of

PIECES = (
    "ack-before-replica",
    "any-signature-passes",
    "async-failure-is-certain",
    "check-back-never",
    "copies-are-not-waited-for",
    "damage-ends-the-log",
    "failed-send-back-counts",
    "first-answer-is-the-route",
    "ordered-retry-goes-behind",
    "pull-skips-at-its-limit",
    "retry-queue-by-the-groups-number",
    "rotten-record-served",
    "wrong-correlation-id",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunted:
    """`found` is the number of the seed that was invalid, counted from 1; None: no seed was."""

    found: int | None
    seeds: int
    cpu_s: float

    def __str__(self) -> str:
        return (
            f"{f'seed {self.found}' if self.found else f'not in {self.seeds}'} | {self.cpu_s:.1f}"
        )


def hunted(name: str, workload: str, seeds: int, *options: str) -> Hunted:
    """Hunt until a seed is invalid."""
    with tempfile.TemporaryDirectory() as folder:
        campaign, rows = Path(folder, "drawn.toml"), Path(folder, "rows.jsonl")
        campaign.write_text(f'[campaign]\nworkload = "{workload}"\n')
        command = [sys.executable, "-m", "staticfire", "hunt", "--campaign", str(campaign)]
        command += ["--defect", name, "--seeds", f"0-{seeds - 1}", "--jobs", "1", "--until-found"]
        done = subprocess.run(
            [*command, "--out", str(rows), *options], capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1, 2):
            raise RuntimeError(f"{name}: {done.stderr.strip()}")
        results = [orjson.loads(line) for line in rows.read_bytes().splitlines()]
    results = [row for row in results if "valid" in row]
    invalid = [number for number, row in enumerate(results, start=1) if row["valid"] is False]
    return Hunted(
        found=invalid[0] if invalid else None,
        seeds=len(results),
        cpu_s=sum(row["cpu_s"] for row in results),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="pieces of the museum")
    parser.add_argument("--seeds", type=int, default=64, help="of a blind hunt")
    parser.add_argument("--guided-seeds", type=int, default=128, help="of a guided hunt")
    options = parser.parse_args()
    print("| bug | workload | blind | CPU s | guided | CPU s |\n|---|---|---|---|---|---|")
    for name in options.names or PIECES:
        if name not in DEFECTS:
            parser.error(f"NAME is {name}; allowed: those of `staticfire bugs`")
        workload = recipe_of(name).get("workload", "queue")
        blind = hunted(name, workload, options.seeds)
        is_first = blind.found is not None and blind.found <= GENERATION
        guided = blind if is_first else hunted(name, workload, options.guided_seeds, "--guided")
        print(f"| `{name}` | {workload} | {blind} | {guided} |", flush=True)


if __name__ == "__main__":
    main()
