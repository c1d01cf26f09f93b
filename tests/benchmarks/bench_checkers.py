"""How much CPU a verdict costs. Run it: `python tests/benchmarks/bench_checkers.py [SENDS|RUN ...]`.

Prints CPU milliseconds (of this process) for reading a history file, building columns, and each checker,
over a made-up history without anomalies: SENDS acknowledged sends, each consumed by one group.

Of the folder of a kept run, such as one of the simulation, it prints the whole verdict: the best and the median of 40,
and as much for 2,000 operations (invocation with completion). Parsing is not part of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import orjson

from staticfire.checkers.engine.engine import judge_columns
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import (
    Op,
    OpType,
    read_history,
    read_observations,
    write_history,
)
from staticfire.checkers.verdicts.compose import ALL_CHECKERS, CORE, KERNELS, check_run

RUNS = 40
BROKERS, QUEUES_EACH, BATCH, RECORD_SIZE = 4, 4, 8, 300
FACTS = RunFacts(
    flush="sync",
    replication="sync",
    groups={"g": ("orders",)},
    topics=("orders",),
    replica_sets={f"broker-{number}": (f"n{number}", f"n{number}s") for number in range(BROKERS)},
)
T = TypeVar("T")


class _Run:
    """Writes a history in which everything goes well."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._ends = [0] * (BROKERS * QUEUES_EACH)

    def write(self, sends: int) -> None:
        for first in range(0, sends, len(self._ends) * BATCH):
            batches: list[list[Any]] = [[] for _ in self._ends]
            for number in range(first, min(first + len(self._ends) * BATCH, sends)):
                queue = number % len(self._ends)
                batches[queue].append(self._send(number, queue))
            for queue, messages in enumerate(batches):
                if messages:
                    self._pair(
                        10 + queue, "consume", {**_place(queue), "group": "g", "messages": messages}
                    )
        for broker in FACTS.replica_sets:
            self._add(20, "ok", "probe", {"broker": broker})
        ends = [
            [f"broker-{queue % BROKERS}", queue // BROKERS, 0, end, end]
            for queue, end in enumerate(self._ends)
        ]
        self._add(21, "ok", "drain", {"group": "g", "topic": "orders", "queues": ends, "lag": 0})

    def _send(self, number: int, queue: int) -> list[Any]:
        offset, key = self._ends[queue], f"p{number % 8}-{number}"
        self._ends[queue] += 1
        physical = (offset * QUEUES_EACH + queue // BROKERS) * RECORD_SIZE
        where = {**_place(queue), "queue_offset": offset, "physical_offset": physical}
        value = {"key": key, "size": RECORD_SIZE, **where, "status": "SEND_OK", "attempts": 1}
        self._pair(number % 8, "send", value)
        return [key, offset, physical, True, 0]

    def _pair(self, process: int, f: str, value: dict[str, Any]) -> None:
        self._add(process, "invoke", f, value)
        self._add(process, "ok", f, value)

    def _add(self, process: int, type: OpType, f: str, value: dict[str, Any]) -> None:
        index = len(self.ops)
        op = Op(index=index, time_ns=index * 1000, process=process, type=type, f=f, value=value)
        self.ops.append(op)


def _place(queue: int) -> dict[str, Any]:
    broker = f"broker-{queue % BROKERS}"
    return {"topic": "orders", "broker": broker, "queue": queue // BROKERS}


def _observations(ops: list[Op]) -> list[dict[str, Any]]:
    acks = [
        {
            "time_ns": op.time_ns,
            "kind": "ack_durability",
            "key": op.value["key"],
            "status": "SEND_OK",
            "broker_name": op.value["broker"],
            "end_offset": op.value["physical_offset"] + 1,
            "durable_on": list(FACTS.replica_sets[op.value["broker"]]),
            "cached_on": [],
            "unobserved": [],
        }
        for op in ops
        if op.f == "send" and op.type == "ok"
    ]
    replicas = [
        {
            "time_ns": 0,
            "kind": "replica",
            "broker_name": name,
            "master": nodes[0],
            "slave": nodes[1],
            "master_end": 1,
            "slave_end": 1,
            "first_difference": None,
        }
        for name, nodes in FACTS.replica_sets.items()
    ]
    entries = [
        {
            "time_ns": 0,
            "kind": "queue_entries",
            "broker_name": name,
            "node": node,
            "entries": 1,
            "holes": 0,
            "hole_at": [],
            "wrong": 0,
            "wrong_at": [],
            "missing": 0,
        }
        for name, nodes in FACTS.replica_sets.items()
        for node in nodes
    ]
    return [*acks, *replicas, *entries]


def _timed(name: str, action: Callable[[], T]) -> T:
    """Run `action` and print its CPU time."""
    started = time.process_time_ns()
    answer = action()
    print(f"  {name:<24}{(time.process_time_ns() - started) / 1e6:10.1f} ms CPU")
    return answer


def bench(sends: int) -> None:
    run = _Run()
    run.write(sends)
    observations = _observations(run.ops)
    print(f"{sends} sends, {len(run.ops)} ops")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        _timed("write_history", lambda: write_history(path, run.ops))
        _timed("read_history", lambda: read_history(path))
    columns, timeline = _timed("build_columns", lambda: build_columns(run.ops))
    promises = LossPromises(FACTS)
    context = Context(facts=FACTS, timeline=timeline, promises=promises, observations=observations)
    for checker in (checker for checker in ALL_CHECKERS if checker.applies(context)):
        _timed(checker.name, partial(checker.check, columns, context))
    for name, kernels in {"core kernels": CORE, "all kernels": KERNELS}.items():
        once = replace(columns, cache={})  # what kernels share is made anew
        _timed(f"{name}, one look", partial(judge_columns, once, context, kernels))
    verdict = _timed("check_run, all of it", lambda: check_run(run.ops, observations, FACTS))
    print(f"  verdict: {verdict.valid}")


def bench_run(folder: Path) -> None:
    ops = read_history(folder / "history.jsonl").ops
    observations = read_observations(folder / "observations.jsonl").records
    facts = RunFacts.from_json(orjson.loads((folder / "verdict.json").read_bytes())["facts"])
    completed = sum(op.type != "invoke" for op in ops)
    times_ms = []
    for _ in range(RUNS):
        started = time.process_time_ns()
        check_run(ops, observations, facts)
        times_ms.append((time.process_time_ns() - started) / 1e6)
    times_ms.sort()
    print(f"{folder.name}: {completed} operations, {len(observations)} observations")
    for name, took_ms in (("best", times_ms[0]), ("median", times_ms[RUNS // 2])):
        print(
            f"  {name:<24}{took_ms:10.1f} ms CPU, {took_ms * 2000 / completed:.1f} ms for 2,000 operations"
        )


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["2000", "2000", "300000"]:
        if argument.isdecimal():
            bench(int(argument))
        else:
            bench_run(Path(argument))
