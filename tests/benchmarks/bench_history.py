"""What it costs to keep a history as columns. Run it: `python tests/benchmarks/bench_history.py [SENDS ...]`.

Prints CPU seconds (of this process), rows a CPU second and bytes a row for writing columns op by op, for reading them
back as arrays and as ops, and for the lines of JSON beside them; and the peak of memory. An operation is an invocation
with its completion: SENDS sends make about 9/8 SENDS operations and 2 SENDS rows.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.recording import ColumnarRecorder
from staticfire.checkers.model.history import Op, encode_op
from staticfire.checkers.model.history_lines import HistoryLines

BROKERS, QUEUES_EACH, BATCH, PROCESSES, RECORD_SIZE = 4, 4, 8, 8, 300
QUEUES = BROKERS * QUEUES_EACH


def ops_of(sends: int) -> Iterator[Op]:
    """Sends of 8 processes to 16 queues, delivered to one group in batches of 8; a commit now and then."""
    chance = Random(1)
    index, time_ns = 0, 0
    offsets = [0] * QUEUES
    numbers = [0] * PROCESSES
    waiting: list[list[Any]] = [[] for _ in range(QUEUES)]
    physical = [0] * BROKERS
    asked: list[dict[str, Any] | None] = [None] * PROCESSES

    def op(process: int, type_: Any, f: str, value: dict[str, Any]) -> Op:
        nonlocal index, time_ns
        index += 1
        time_ns += chance.randrange(50_000)
        return Op(
            index=index - 1,
            time_ns=time_ns,
            process=process,
            type=type_,
            f=f,
            value=value,
            node=f"client-{process}",
        )

    done = 0
    while done < sends:
        process = chance.randrange(PROCESSES)
        value = asked[process]
        if value is None:
            key = f"p{process}-{numbers[process]}"
            numbers[process] += 1
            asked[process] = value = {"key": key, "size": chance.randrange(900), "topic": "orders"}
            yield op(process, "invoke", "send", value)
            continue
        asked[process] = None
        done += 1
        queue = chance.randrange(QUEUES)
        place = {"broker": f"broker-{queue % BROKERS}", "queue": queue // BROKERS}
        at, offset = physical[queue % BROKERS], offsets[queue]
        offsets[queue] += 1
        physical[queue % BROKERS] += RECORD_SIZE + value["size"]
        reported = {
            "queue_offset": offset,
            "physical_offset": at,
            "status": "SEND_OK",
            "attempts": 1,
        }
        yield op(process, "ok", "send", {**value, **place, **reported})
        waiting[queue].append([value["key"], offset, at, True, 0])
        if len(waiting[queue]) == BATCH:
            got = {"group": "g", "topic": "orders", **place, "messages": waiting[queue]}
            yield op(10 + queue, "invoke", "consume", got)
            yield op(10 + queue, "ok", "consume", got)
            waiting[queue] = []
        if not done % 10_000:
            row = [place["broker"], place["queue"], offset]
            yield op(
                10 + queue, "ok", "commit", {"group": "g", "topic": "orders", "offsets": [row]}
            )


class _Costs:
    """Times actions and prints them a row each."""

    def __init__(self, rows: int, made_s: float) -> None:
        self.rows, self._made_s = rows, made_s

    def timed(self, name: str, action: Callable[[], int], *, makes_ops: bool = False) -> None:
        """`action` returns how many bytes it wrote or read; making ops is taken off where it is part of it."""
        started = time.process_time()
        size = action()
        cpu_s = time.process_time() - started - (self._made_s if makes_ops else 0.0)
        print(
            f"  {name:<28}{cpu_s:9.2f} CPU s {self.rows / cpu_s / 1e6:8.3f} M rows a CPU s"
            f"{size / self.rows:9.1f} bytes a row"
        )


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def bench(sends: int) -> None:
    started = time.process_time()
    count = sum(1 for _ in ops_of(sends))
    made_s = time.process_time() - started
    costs = _Costs(2 * sends, made_s)
    print(f"{sends} sends, {count} ops, {costs.rows} rows; making the ops took {made_s:.2f} CPU s")
    with TemporaryDirectory() as where:
        folder, lines = Path(where) / "h", Path(where) / "h.jsonl"

        def write() -> int:
            with ColumnarRecorder(folder, "bench") as recorder:
                for op in ops_of(sends):
                    recorder.add(op)
                recorder.finish()
            return size_of(folder / "message_events")

        def write_lines() -> int:
            with lines.open("wb") as file:
                file.writelines(map(encode_op, ops_of(sends)))
            return lines.stat().st_size

        def read_queues() -> int:
            read = ColumnarHistory(folder)
            rows = 0
            for queue in read.queues():
                columns = read.queue(queue)
                rows += len(columns.sends) + len(columns.deliveries)
            assert costs.rows - rows <= BATCH * QUEUES
            return size_of(folder / "message_events")

        def read_whole() -> int:
            ColumnarHistory(folder).whole()
            return size_of(folder / "message_events")

        def read_back() -> int:
            assert sum(1 for _ in read_ops(ColumnarHistory(folder))) == count
            return size_of(folder)

        def read_lines() -> int:
            with lines.open("rb") as file:
                assert sum(1 for _ in HistoryLines(file, "h")) == count
            return lines.stat().st_size

        costs.timed("write columns", write, makes_ops=True)
        each = size_of(folder) / costs.rows
        print(f"  with ops, manifest and events{each:39.1f} bytes a row")
        costs.timed("write lines", write_lines, makes_ops=True)
        costs.timed("read queue by queue", read_queues)
        costs.timed("read as ops", read_back)
        costs.timed("read lines as ops", read_lines)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"  peak so far                 {peak_mb:9.0f} MB")
        costs.timed("read all at once", read_whole)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  peak                        {peak_mb:9.0f} MB")


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["100000", "900000"]:
        bench(int(argument))
