"""Inspects nodes after the load: compares replicas and queues, reports recoveries and events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from staticfire.checkers.op_kinds.catalogue import DELIVERIES
from staticfire.checkers.white_box.internal_errors import INTERNAL_ERROR
from staticfire.harness.clients.consumer_kinds import CHOOSING, LITE_PULLS
from staticfire.harness.environments.environment import Environment
from staticfire.harness.rocketmq.observers.coverage_counters import count_log, count_sends
from staticfire.harness.rocketmq.observers.internal_errors import internal_errors
from staticfire.harness.rocketmq.observers.queue_files import inspect_queues
from staticfire.system_under_test.protocol.message import RecordError, size_at

READ_MAX = 1_000_000  # acknowledged messages: larger stores are not read into memory
LOOKS_MAX = 5
# reported offsets of bytes that differ; with more, the logs are different logs
DIFFERENCES_MAX = 100
LOOK_AGAIN_S = 0.5  # pause, since a record gets its entry after a flush, and delayed sends may come at any time


class Inspector:
    """Records observations of the nodes' files and logs."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._recorder = environment.recorder
        self._replicas = {
            name: environment.topology.replicas_of(name)
            for name in environment.topology.replica_sets
        }

    @property
    def reads_files(self) -> bool:
        """Whether the inspector reads the files of brokers."""
        return self._recorder.acknowledged <= READ_MAX

    async def compare_replicas(self) -> None:
        """Compare the commit logs of living replicas byte by byte, as processes would read them.

        The others are compared with the master's log, or without it with the longest log. Logs that are too large are
        skipped.
        """
        if not self.reads_files:
            return
        for name, replicas in self._replicas.items():
            if self._environment.is_external(replicas[0].node):
                continue
            living = [r.node for r in replicas if not self._environment.is_lost(r.node)]
            # Slaves first: a real master may append records of its own meanwhile.
            logs = {node: await self._look_into(name, node) for node in reversed(living)}
            if replicas[0].node not in logs:
                living.sort(key=lambda node: -logs[node].end)
            for node in living[1:]:
                self._compare(name, living[0], node, logs)

    async def _look_into(self, broker_name: str, node: str) -> LogBytes:
        """Return the node's commit log, and record whether its queues agree with it.

        Records without an entry are checked again later, since new records get theirs after a moment.
        """
        for look in range(LOOKS_MAX):
            if look:
                await asyncio.sleep(LOOK_AGAIN_S)
            files = await self._environment.store_files(node)
            log = log_of(files)
            seen = inspect_queues(files, log.data, log.start)
            if not seen["missing"]:
                break
        seen["log_files"] = sum(map(is_log_file, files))
        self._recorder.observe("queue_entries", broker_name=broker_name, node=node, **seen)
        return log

    def _compare(self, name: str, master: str, slave: str, logs: dict[str, LogBytes]) -> None:
        found = differences(logs[master], logs[slave])
        self._recorder.observe(
            "replica",
            broker_name=name,
            master=master,
            slave=slave,
            master_end=logs[master].end,
            slave_end=logs[slave].end,
            first_difference=found[0] if found else None,
            differences=found,
        )

    def report_recoveries(self) -> None:
        """Record what every start of a broker found in its store."""
        for broker in self._environment.topology.replicas:
            for line in self._environment.log_lines(broker.node):
                if line.event == "store opened":
                    fields = {"node": broker.node, **line.fields}
                    self._recorder.observe("recovery", at_ns=line.time_ns, **fields)

    def report_events(self) -> None:
        """Record the counts of log events and of send outcomes, and errors inside our own nodes."""
        environment = self._environment
        topology = environment.topology
        nodes = [
            *topology.coordinators,
            *(broker.node for broker in topology.replicas),
            *topology.clients,
        ]
        log: Counter[str] = Counter()
        for node in nodes:
            lines = list(environment.log_lines(node))
            log += count_log(lines)
            for error in internal_errors(lines):
                self._recorder.observe(INTERNAL_ERROR, node=node, **error)
        history = count_sends(self._recorder.ops)
        history += self._consumed()
        self._recorder.observe("events", log=_sorted(log), history=_sorted(history))

    def _consumed(self) -> Counter[str]:
        """Count assignments and deliveries, by strategy and kind of consumer."""
        campaign, ops = self._environment.campaign, self._recorder.ops
        kind = campaign.consumer_kind
        given = sum(op.f in DELIVERIES and op.type != "invoke" for op in ops)
        counts = Counter({f"consumed by {kind}": given})
        if kind in LITE_PULLS:
            counts["polled"] = given
        if kind not in CHOOSING:
            counts[f"shared out by {campaign.strategy}"] = sum(op.f == "assign" for op in ops)
        return counts


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))


class LogBytes(NamedTuple):
    """The records of a commit log; retention moves its start."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def log_of(store: Mapping[str, bytes]) -> LogBytes:
    """Return the records of a node's commit log, without the bytes behind the last one."""
    # By name: several folders may hold the files of one log.
    paths = {path.rpartition("/")[2]: path for path in store if is_log_file(path)}
    data = b"".join(whole_records(store[paths[name]]) for name in sorted(paths))
    return LogBytes(start=int(min(paths, default="0")), data=data)


def is_log_file(path: str) -> bool:
    """Whether a path is a file of a commit log, whose folders' names begin with commitlog."""
    return path.rpartition("/")[0].rpartition("/")[2].startswith("commitlog")


def whole_records(data: bytes) -> bytes:
    """Return the prefix of a commit-log file that holds records (and the blank at its end)."""
    position = 0
    while position < len(data):
        try:
            position += size_at(data, position)
        except RecordError:
            return data[:position]
    return data


def differences(master: LogBytes, slave: LogBytes) -> list[int]:
    """Return the first offsets at which the slave's log, within the common range, differs from the master's."""
    begin = max(master.start, slave.start)
    ours, theirs = master.data[begin - master.start :], slave.data[begin - slave.start :]
    if ours.startswith(theirs):
        return []
    common = min(len(ours), len(theirs))
    left, right = (np.frombuffer(data, np.uint8, common) for data in (ours, theirs))
    found: list[int] = (begin + np.flatnonzero(left != right)[:DIFFERENCES_MAX]).tolist()
    return found or [begin + common]
