"""The storage crash test: many short lives of a store on a simulated disk, each ended by a crash.

It needs neither network nor event loop, so that it runs thousands of crashes where a simulated cluster runs one. It
finds what depends on single bytes: torn records, stale tails, lost directory entries, checkpoints that know too much.

    python -m harness.simulation.storage_crash --cycles 10000 --seed 0 --jobs 2
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import NoReturn

from harness.simulation.storage_crash_cycle import Cycle, WrapStorage
from harness.simulation.storage_crash_plan import CycleCounts

__all__ = ["CrashSummary", "CycleFailure", "main", "run_cycles"]

EXIT_FAILED = 1
EXIT_BAD_ARGUMENTS = 254
CHUNK_SIZE = 200
PROGRESS_CYCLES = 5_000  # between two lines of progress in a log; a multiple of CHUNK_SIZE
FAILURES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleFailure:
    """A seed whose cycle broke a promise, or in which the store raised what it must not."""

    seed: int
    text: str  # one line
    details: str = ""  # the traceback, for anything but a broken promise

    @property
    def command(self) -> str:
        """Repeats this cycle alone."""
        return f"python -m harness.simulation.storage_crash --cycles 1 --seed {self.seed}"


@dataclass(slots=True, kw_only=True)
class CrashSummary:
    """The sum over cycles; `cpu_s` counts all processes."""

    counts: CycleCounts = field(default_factory=CycleCounts)
    failures: list[CycleFailure] = field(default_factory=list)
    cpu_s: float = 0.0

    @property
    def crashes(self) -> int:
        return self.counts.power_cuts + self.counts.process_deaths

    def add(self, other: CrashSummary) -> None:
        self.counts.add(other.counts)
        self.failures += other.failures
        self.cpu_s += other.cpu_s

    def lines(self) -> Iterator[str]:
        """For people: the counts, the speed, then the failures with their commands."""
        yield " ".join(f"{name}={count}" for name, count in asdict(self.counts).items())
        cpu_s = max(self.cpu_s, 1e-9)
        yield (
            f"{self.crashes} crashes in {self.cpu_s:.1f} CPU s: {self.crashes / cpu_s:.0f} crashes"
            f" and {self.counts.cycles / cpu_s:.0f} cycles per CPU second"
        )
        failures = sorted(self.failures, key=lambda failure: failure.seed)
        for failure in failures[:FAILURES_SHOWN]:
            yield f"FAILED seed {failure.seed}: {failure.text}"
            yield f"  repeat with: {failure.command}"
            if failure.details:
                yield failure.details
        yield f"{len(failures)} of {self.counts.cycles} cycles failed"


def run_cycles(seed_from: int, count: int, *, wrap: WrapStorage | None = None) -> CrashSummary:
    """Run the cycles of the seeds `seed_from` to `seed_from + count - 1` in this process."""
    summary = CrashSummary()
    begin_s = time.process_time()
    for seed in range(seed_from, seed_from + count):
        try:
            summary.counts.add(Cycle(seed, wrap=wrap).run())
        except Exception as error:
            summary.counts.cycles += 1
            summary.failures.append(_failure(seed, error))
    summary.cpu_s = time.process_time() - begin_s
    return summary


def run_parallel(
    seed_from: int, count: int, jobs: int, progress: Callable[[CrashSummary], None]
) -> CrashSummary:
    """Like `run_cycles` in `jobs` processes; calls `progress` with the sum so far after each chunk."""
    chunks = [
        (seed, min(CHUNK_SIZE, seed_from + count - seed))
        for seed in range(seed_from, seed_from + count, CHUNK_SIZE)
    ]
    total = CrashSummary()
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(chunks))) as pool:
        for part in pool.imap_unordered(_run_chunk, chunks):
            total.add(part)
            progress(total)
    return total


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status: 0 all kept their promises, 1 some did not, 254 bad arguments."""
    options = _parse(arguments)
    total = run_parallel(options.seed, options.cycles, options.jobs, _print_progress)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    for line in total.lines():
        print(line)
    return EXIT_FAILED if total.failures else 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_ARGUMENTS, f"{self.prog}: {message}\n")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m harness.simulation.storage_crash",
        description="Crash the store thousands of times on a simulated disk and compare it with a model.",
        epilog="Exit status: 0 every promise was kept, 1 one was broken, 254 bad arguments.",
    )
    parser.add_argument("--cycles", type=_positive, default=1000, help="how many (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first cycle (default 0)")
    parser.add_argument("--jobs", type=_positive, default=1, help="processes (default 1)")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _run_chunk(chunk: tuple[int, int]) -> CrashSummary:
    return run_cycles(*chunk)


def _failure(seed: int, error: Exception) -> CycleFailure:
    text = f"{type(error).__name__}: {error}"
    return CycleFailure(seed=seed, text=text, details="".join(traceback.format_exception(error)))


def _print_progress(total: CrashSummary) -> None:
    """On a terminal one line that changes; elsewhere a line now and then, for the log of a long run."""
    cycles = total.counts.cycles
    text = f"{cycles} cycles, {total.crashes} crashes, {len(total.failures)} failures"
    if sys.stderr.isatty():
        print(f"\r{text}", end="", file=sys.stderr, flush=True)
    elif cycles % PROGRESS_CYCLES == 0:
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
