"""The storage crash test: many short lives of a store on a simulated disk, each ended by a crash.

It needs neither network nor event loop, so it runs thousands of crashes in the time of one in a simulated cluster. It
finds bugs that depend on single bytes: torn records, stale tails, lost directory entries, checkpoints ahead of the
data. The command is `staticfire crash-store`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

from staticfire.harness.raised_text import raised_text
from staticfire.harness.store_crash.cycle import Cycle, WrapStorage
from staticfire.harness.store_crash.plan import CycleCounts
from staticfire.harness.truncated_repr import printable
from staticfire.harness.worker_processes import WorkerPool
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.configuration.policy_choice import policy_names, with_chosen
from staticfire.system_under_test.store.assembly.store_policy import HARDENED_STORE, StorePolicy

CHUNK_SIZE = 200
FAILURES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleFailure:
    """A seed whose cycle broke a promise, or whose store raised an unexpected error."""

    seed: int
    text: str  # one line


@dataclass(slots=True, kw_only=True)
class CrashSummary:
    """The sum over several cycles; `cpu_s` counts all processes."""

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

    def lines(self, command: str, *, hints: bool = True) -> Iterator[str]:
        """Return lines of text: counts, speed, then failures, each with `command` and a seed to repeat it.

        `hints`: also the command that shrinks the first one.
        """
        yield " ".join(f"{name}={count}" for name, count in asdict(self.counts).items())
        cpu_s = max(self.cpu_s, 1e-9)
        yield (
            f"{self.crashes} crashes in {self.cpu_s:.1f} CPU s: {self.crashes / cpu_s:.0f} crashes"
            f" and {self.counts.cycles / cpu_s:.0f} cycles per CPU second"
        )
        failures = sorted(self.failures, key=lambda failure: failure.seed)
        for failure in failures[:FAILURES_SHOWN]:
            yield printable(f"FAILED seed {failure.seed}: {failure.text}")
            yield f"  repeat with: {command} --cycles 1 --seed {failure.seed}"
        yield f"{len(failures)} of {self.counts.cycles} cycles failed"
        if failures and hints:
            seed = failures[0].seed
            yield f"shrink it with: {command} --cycles 1 --seed {seed} --shrink cycle.json"


def store_policy(names: Sequence[str]) -> StorePolicy:
    """Return the policy of a hardened store with these faithful lines of the policy table (docs/faithful.md).

    Raises ValueError for a name that is not a policy of the store.
    """
    hardened, faithful = BROKER_POLICIES[Mode.HARDENED], BROKER_POLICIES[Mode.FAITHFUL]
    known = [name for name in policy_names(hardened) if name.startswith("store.")]
    for name in names:
        if name not in known:
            raise ValueError(f"policies hold {name!r}; there are: {', '.join(known)}")
    return with_chosen(hardened, faithful, names).store


def run_cycles(
    seed_from: int,
    count: int,
    *,
    wrap: WrapStorage | None = None,
    policy: StorePolicy = HARDENED_STORE,
) -> CrashSummary:
    """Run the cycles of the seeds `seed_from` to `seed_from + count - 1` in this process."""
    summary = CrashSummary()
    begin_s = time.process_time()
    for seed in range(seed_from, seed_from + count):
        try:
            summary.counts.add(Cycle(seed, wrap=wrap, policy=policy).run())
        except Exception as error:
            summary.counts.cycles += 1
            summary.failures.append(_failure(seed, error))
    summary.cpu_s = time.process_time() - begin_s
    return summary


def run_parallel(
    seed_from: int,
    count: int,
    jobs: int,
    progress: Callable[[CrashSummary], None],
    policy: StorePolicy = HARDENED_STORE,
) -> CrashSummary:
    """Run the same cycles in `jobs` processes; call `progress` with the sum so far after each chunk."""
    chunks = [
        (seed, min(CHUNK_SIZE, seed_from + count - seed))
        for seed in range(seed_from, seed_from + count, CHUNK_SIZE)
    ]
    total = CrashSummary()
    with WorkerPool(min(jobs, len(chunks))) as pool:
        for part in pool.results(partial(_run_chunk, policy), chunks):
            total.add(part)
            progress(total)
    return total


def _run_chunk(policy: StorePolicy, chunk: tuple[int, int]) -> CrashSummary:
    return run_cycles(*chunk, policy=policy)


def _failure(seed: int, error: Exception) -> CycleFailure:
    return CycleFailure(seed=seed, text=raised_text(error))
