"""The storage crash test: many short lives of a store on a simulated disk, each ended by a crash.

It needs neither network nor event loop, so that it runs thousands of crashes where a simulated cluster runs one. It
finds what depends on single bytes: torn records, stale tails, lost directory entries, checkpoints that know too much.
The command is `staticfire crash-store`.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

from harness.store_crash.cycle import Cycle, WrapStorage
from harness.store_crash.plan import CycleCounts

__all__ = ["CrashSummary", "CycleFailure", "run_cycles", "run_parallel"]

CHUNK_SIZE = 200
FAILURES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleFailure:
    """A seed whose cycle broke a promise, or in which the store raised what it must not."""

    seed: int
    text: str  # one line
    details: str = ""  # the traceback, for anything but a broken promise


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

    def lines(self, command: str) -> Iterator[str]:
        """For people: the counts, the speed, then failures with what repeats each: `command` and a seed."""
        yield " ".join(f"{name}={count}" for name, count in asdict(self.counts).items())
        cpu_s = max(self.cpu_s, 1e-9)
        yield (
            f"{self.crashes} crashes in {self.cpu_s:.1f} CPU s: {self.crashes / cpu_s:.0f} crashes"
            f" and {self.counts.cycles / cpu_s:.0f} cycles per CPU second"
        )
        failures = sorted(self.failures, key=lambda failure: failure.seed)
        for failure in failures[:FAILURES_SHOWN]:
            yield f"FAILED seed {failure.seed}: {failure.text}"
            yield f"  repeat with: {command} --cycles 1 --seed {failure.seed}"
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
    with multiprocessing.get_context("fork").Pool(min(jobs, len(chunks))) as pool:
        for part in pool.imap_unordered(_run_chunk, chunks):
            total.add(part)
            progress(total)
    return total


def _run_chunk(chunk: tuple[int, int]) -> CrashSummary:
    return run_cycles(*chunk)


def _failure(seed: int, error: Exception) -> CycleFailure:
    text = f"{type(error).__name__}: {error}"
    return CycleFailure(seed=seed, text=text, details="".join(traceback.format_exception(error)))
