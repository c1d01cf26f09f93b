"""Follows a run in progress: each look reads the part of its history that was written since."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil, log2
from typing import Any, BinaryIO

from staticfire.checkers.model.history import FIRING, NEMESIS
from staticfire.harness.exports.counts import MessageSet
from staticfire.harness.serve.documents import json_object
from staticfire.harness.serve.folder import ServedFolder
from staticfire.harness.serve.loose import number, rows, table, text

LOOK_BYTES_MAX = 16 << 20  # bytes read at one look
BUCKETS_MAX = 600
FAULTS_MAX = 500
LATEST_MAX = 20
RUNS_MAX = 16  # runs whose state is kept
SENDS, DELIVERIES = ("send", "send_many"), ("consume", "consume_many")
ACKED, REFUSED, UNCLEAR, DELIVERED = range(4)
WAITING_MAX = 1_000_000  # undelivered messages whose lag is tracked
STEPS = (
    8  # ranks of lags between a value and its double, so that a percentile is at most 9 % too high
)


class Throughput:
    """Counts by time. The step doubles when there would be more than BUCKETS_MAX buckets."""

    def __init__(self) -> None:
        self.step_s = 1
        self.buckets: list[list[int]] = []
        self.unseen: list[int] = []  # at the end of each step
        self.lags: list[Counter[int]] = []  # of first deliveries in each step, by their rank

    def add(self, time_ns: int, kind: int, count: int, unseen: int) -> None:
        """Count at a time of the run; `unseen` is the number of undelivered messages then."""
        bucket = time_ns // (self.step_s * 10**9)
        while bucket >= BUCKETS_MAX:
            self.buckets = [
                [sum(kinds) for kinds in zip(*self.buckets[at : at + 2], strict=True)]
                for at in range(0, len(self.buckets), 2)
            ]
            self.unseen = [self.unseen[at : at + 2][-1] for at in range(0, len(self.unseen), 2)]
            self.lags = [
                sum(self.lags[at : at + 2], Counter()) for at in range(0, len(self.lags), 2)
            ]
            self.step_s *= 2
            bucket //= 2
        while len(self.buckets) <= bucket:
            self.buckets.append([0, 0, 0, 0])
            self.unseen.append(self.unseen[-1] if self.unseen else 0)
            self.lags.append(Counter())
        self.buckets[bucket][kind] += count
        self.unseen[bucket] = unseen

    def add_lags(self, time_ns: int, lags_ns: Sequence[int]) -> None:
        """Count lags of messages that were just delivered; `add` was called for that time before."""
        bucket = time_ns // (self.step_s * 10**9)
        self.lags[bucket].update(map(_rank, lags_ns))

    def lag_s(self, percent: float) -> list[float | None]:
        """Return a percentile of the lags in each step, in seconds; None without first deliveries."""
        return [_percentile_s(lags, percent) for lags in self.lags]

    def rate(self, kind: int) -> list[float]:
        """Return messages a second in each step."""
        return [bucket[kind] / self.step_s for bucket in self.buckets]

    def total(self, kind: int) -> int:
        """Return the number of messages so far."""
        return sum(bucket[kind] for bucket in self.buckets)


def _rank(lag_ns: int) -> int:
    """Return the rank of a lag; lags that a chart need not distinguish share a rank."""
    return ceil(STEPS * log2(max(lag_ns, 1)))


def _percentile_s(lags: Counter[int], percent: float) -> float | None:
    if not lags:
        return None
    ranks = sorted(lags)
    wanted = lags.total() * percent / 100
    reached = accumulate(lags[rank] for rank in ranks)
    rank = next(rank for rank, count in zip(ranks, reached, strict=True) if count >= wanted)
    return float(2 ** (rank / STEPS) / 1e9)


class LiveRun:
    """The state of one run. `look` reads on; all other values are those of the latest look."""

    def __init__(self) -> None:
        self.throughput = Throughput()
        self.position = 0
        self.size = 0
        self.ops = 0
        self.last_ns = 0
        self.faults: OrderedDict[Any, dict[str, Any]] = OrderedDict()  # the latest FAULTS_MAX
        self.events: deque[tuple[int, str]] = deque(maxlen=LATEST_MAX)  # (time, text)
        self.latest: deque[Mapping[str, object]] = deque(maxlen=LATEST_MAX)
        self.damaged = 0  # lines
        self.counts_unseen = True  # not for batch ops, whose messages have no keys of their own
        self._begin()
        self._lock = threading.Lock()

    @property
    def faults_on(self) -> list[dict[str, object]]:
        """Return the faults that are on now."""
        return [fault for fault in self.faults.values() if fault["end_ns"] is None]

    @property
    def oldest_unseen_ns(self) -> int | None:
        """Return how long the oldest undelivered message has waited, in ns; None if there is none."""
        first_ns = next(iter(self._waiting.values()), None)
        return None if first_ns is None else max(self.last_ns - first_ns, 0)

    def look(self, folder: ServedFolder, path: Sequence[str]) -> None:
        """Read what was written since the last look, LOOK_BYTES_MAX at most. Raises NotServed."""
        with self._lock, folder.open((*path, "history.jsonl")) as file:
            self.size = folder.entry((*path, "history.jsonl")).size
            if self.size < self.position:
                self._begin_again()
            self._read_on(file)

    def _begin(self) -> None:
        self._acked, self._seen, self.unseen = MessageSet(), MessageSet(), 0
        self._waiting: dict[str, int] = {}  # key -> when it was acknowledged, the oldest first

    def _begin_again(self) -> None:
        """Start over, since another run has taken the name."""
        self.throughput, self.position, self.ops, self.last_ns = Throughput(), 0, 0, 0
        self._begin()
        for kept in (self.faults, self.events, self.latest):
            kept.clear()

    def _read_on(self, file: BinaryIO) -> None:
        file.seek(self.position)
        data = file.read(LOOK_BYTES_MAX)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == LOOK_BYTES_MAX:
            end = len(data)  # skips a line that is longer than one look
        for line in data[:end].splitlines():
            self._add(json_object(line))
        self.position += end

    def _add(self, op: Mapping[str, object]) -> None:
        time_ns = op.get("time_ns")
        if type(time_ns) is not int or not 0 <= time_ns < 1 << 62:
            self.damaged += 1
            return
        f, kind, value = text(op.get("f")), text(op.get("type")), table(op.get("value"))
        self.ops += 1
        self.last_ns = max(self.last_ns, time_ns)
        self.latest.append(op)
        if op.get("process") == NEMESIS:
            self._add_nemesis(time_ns, f, value)
        elif f in SENDS and kind != "invoke":
            outcome = {"ok": ACKED, "fail": REFUSED}.get(kind, UNCLEAR)
            if outcome == ACKED:
                self._add_acked(time_ns, value)
            count = int(number(value.get("count")) or 1)
            self.throughput.add(time_ns, outcome, count, self.unseen)
        elif f in DELIVERIES and kind == "invoke":
            messages = rows(value.get("messages"))
            lags_ns = self._add_seen(time_ns, messages)
            self.throughput.add(time_ns, DELIVERED, len(messages) or 1, self.unseen)
            self.throughput.add_lags(time_ns, lags_ns)
        elif f in ("drain", "probe"):
            self.events.append((time_ns, f"{f} {kind}"))

    def _add_acked(self, time_ns: int, value: Mapping[str, object]) -> None:
        self.counts_unseen = self.counts_unseen and "count" not in value
        key = text(value.get("key"))
        if key and self._acked.add(key) and key not in self._seen:
            self.unseen += 1
            if len(self._waiting) < WAITING_MAX:
                self._waiting[key] = time_ns

    def _add_seen(self, time_ns: int, messages: Sequence[object]) -> list[int]:
        """Add the lags of messages delivered for the first time after their acknowledgement."""
        lags_ns = []
        for message in messages:
            key = text(message[0]) if isinstance(message, list) and message else ""
            if key and self._seen.add(key):
                self.unseen -= key in self._acked
                if (acked_ns := self._waiting.pop(key, None)) is not None:
                    lags_ns.append(max(time_ns - acked_ns, 0))
        return lags_ns

    def _add_nemesis(self, time_ns: int, f: str, value: Mapping[str, object]) -> None:
        name, number_ = text(value.get("kind")) or f, str(value.get("fault_id", f))
        targets = ", ".join(map(str, rows(value.get("targets"))))
        if f.startswith("start_"):
            self.faults[number_] = {
                "kind": name,
                "targets": targets,
                "begin_ns": time_ns,
                "end_ns": None,
            }
            if len(self.faults) > FAULTS_MAX:
                self.faults.popitem(last=False)
        elif f.startswith("stop_") and number_ in self.faults:
            self.faults[number_]["end_ns"] = time_ns
        elif not f.startswith(FIRING):
            self.events.append((time_ns, f"{f} {text(value.get('node'))}"))


class LiveRuns:
    """The RUNS_MAX runs that were read last."""

    def __init__(self, folder: ServedFolder) -> None:
        self._folder = folder
        self._runs: OrderedDict[str, LiveRun] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, name: str) -> LiveRun:
        """Return the present state of a run. Raises NotServed."""
        with self._lock:
            run = self._runs.setdefault(name, LiveRun())
            self._runs.move_to_end(name)
            while len(self._runs) > RUNS_MAX:
                self._runs.popitem(last=False)
        run.look(self._folder, (name,))
        return run
