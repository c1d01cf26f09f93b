"""How much CPU and memory a verdict over a large history costs.

Run it: `python tests/benchmarks/bench_large.py [OPERATIONS ...] [--groups N] [--queues N] [--folder DIR] [--sparse]`.

An operation is an invocation with its completion: half of them sends, half polls of two messages each (with ten groups:
every group polls everything). Everything goes well in the history, as in most of any history. Prints CPU seconds of
reading (Parquet to arrays, stated apart), of each core kernel by itself, of the core set, of all kernels, and of each
other kernel among all; and the peak memory of this process. Linear growth: `bench_large.py 1000000 10000000
100000000 --brief`, where the nanoseconds a row must stay the same (100 M need 1.2 GB of disk for a while).
"""

from __future__ import annotations

import argparse
import resource
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

import numpy as np

from staticfire.checkers.engine.engine import ScreeningPass, screening_pass
from staticfire.checkers.engine.kernel import Context, Kernel
from staticfire.checkers.formats.chunks.check_files import check_files
from staticfire.checkers.formats.chunks.work_units import PARTITION_ROWS, together
from staticfire.checkers.formats.columnar.manifest import Dictionaries
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.rows import QueueRows
from staticfire.checkers.formats.columnar.writer import ColumnarWriter
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.guarantees.verdict import Tally
from staticfire.checkers.model.columns import Columns, Ints, Mask
from staticfire.checkers.verdicts.compose import CORE, KERNELS
from tests.benchmarks.made_up_queues import MadeUpQueues

TRIES = 3  # the best counts
T = TypeVar("T")


def write(made: MadeUpQueues, folder: Path) -> ColumnarHistory:
    writer = ColumnarWriter(folder, "bench")
    for queue in range(len(made.keys)):
        columns = made.columns(queue)
        rows = QueueRows(columns.sends, columns.deliveries, columns.commits)
        writer.add(made.names, rows)
    dictionaries = Dictionaries(topics=made.names.topics, groups=made.groups, queues=made.keys)
    writer.finish(dictionaries, made.end_ns)
    return ColumnarHistory(folder)


class _Bench:
    """One history in files, read once for each measurement."""

    def __init__(self, made: MadeUpQueues, history: ColumnarHistory) -> None:
        self._made, self._history = made, history
        self._context = Context(
            facts=made.facts, timeline=made.timeline(), promises=LossPromises(made.facts)
        )
        self.read_s = 0.0

    def judge(self, kernels: Sequence[Kernel]) -> float:
        """CPU seconds of the screening pass at all partitions (without candidates), without reading."""
        self.read_s = judged_s = 0.0
        total = ScreeningPass()
        for parts in together(self._history.manifest, PARTITION_ROWS):
            columns, read_s = _timed(partial(self._history.columns_of, parts))
            scan, screen_s = _timed(partial(screening_pass, columns, self._context, kernels))
            total = total.merge(scan)
            self.read_s += read_s
            judged_s += screen_s
        assert not len(total.candidates)
        assert not total.failed, total.failed
        return judged_s

    def verdict_s(self, kernels: Sequence[Kernel]) -> float:
        """CPU seconds of `check_files`, reading included; the history has no drain op, so groups stay undrained."""
        checkers = [kernel.as_checker() for kernel in kernels]
        _, spent_s = _timed(lambda: check_files(self._history, [], self._made.facts, checkers))
        return spent_s


def _timed(action: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    answer = action()
    return answer, time.process_time() - started


def bench(operations: int, args: argparse.Namespace) -> None:
    sends = operations // 2
    first_offset = 10**12 if args.sparse else 0
    made = MadeUpQueues(
        sends=sends, queues=args.queues, groups=args.groups, first_offset=first_offset
    )
    folder = Path(mkdtemp(dir=args.folder))
    try:
        history, write_s = _timed(lambda: write(made, folder / "history.parquet"))
        rows = history.manifest.rows
        size = sum(part.bytes for part in history.manifest.message_events)
        print(
            f"{operations} operations, {args.groups} groups, {rows} rows, {args.queues} queues, "
            f"{size / 1e6:.0f} MB in files (written in {write_s:.1f} CPU s)"
        )
        measure(_Bench(made, history), rows, each=not args.brief)
    finally:
        shutil.rmtree(folder)


def measure(bench: _Bench, rows: int, *, each: bool) -> None:
    bench.judge(CORE[:1])  # imports, caches
    core_s = min(bench.judge(CORE) for _ in range(TRIES))
    _line("reading", bench.read_s, rows)
    for kernel in CORE if each else ():
        _line(f"{kernel.name} by itself", bench.judge([kernel]), rows)
    _line("core set", core_s, rows)
    spent: dict[str, float] = {}
    watched = [_watched(kernel, spent) for kernel in KERNELS]
    all_s = min(bench.judge(watched) for _ in range(TRIES))
    _line("all kernels", all_s, rows)
    print(f"  {'all kernels / core set':<28}{all_s / core_s:9.2f}, of at most 3")
    for kernel in KERNELS if each else ():
        if kernel not in CORE:
            _line(f"{kernel.name} among all", spent[kernel.name] / TRIES, rows)
    _line("core set and reading", bench.verdict_s(CORE), rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  peak memory of this process so far {peak:.0f} MB")


def _watched(kernel: Kernel, spent: dict[str, float]) -> Kernel:
    """The kernel, which adds up its CPU seconds."""
    spent[kernel.name] = 0.0

    def partial_of(columns: Columns, context: Context) -> Tally:
        tally, spent_s = _timed(lambda: kernel.partial(columns, context))
        spent[kernel.name] += spent_s
        return tally

    def more_of(columns: Columns, context: Context, cleared: Mask) -> Ints:
        more, spent_s = _timed(lambda: kernel.more_candidates(columns, context, cleared))
        spent[kernel.name] += spent_s
        return more

    return replace(kernel, partial=partial_of, more_candidates=more_of)


def _line(name: str, spent_s: float, rows: int) -> None:
    print(f"  {name:<28}{spent_s:9.3f} CPU s {spent_s / rows * 1e9:8.0f} ns a row")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operations", nargs="*", type=int, default=[1_000_000])
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--queues", type=int, default=48)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--sparse", action="store_true", help="offsets beyond 10^12")
    parser.add_argument("--brief", action="store_true", help="not each kernel by itself")
    args = parser.parse_args()
    np.seterr(all="raise")
    for operations in args.operations:
        bench(operations, args)


if __name__ == "__main__":
    main()
