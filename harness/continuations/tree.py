"""Continuations at many virtual times, a bounded number at a time.

Snapshots form a tree: each is forked from the latest earlier one, so each part of the run is run once. If a process
fails, its continuation is run again from the start, with the same outcome.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field
from typing import Self

import orjson

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.continuations.rewind import (
    Outcome,
    Rewind,
    outcome_of,
    outcome_of_error,
    repeated,
)
from staticfire.harness.continuations.snapshot import Fork, start_snapshot

SNAPSHOTS_MAX = 16  # each holds the memory that the run has changed since
PIPE_BYTES = 65536
SET_CHILD_SUBREAPER = 36  # prctl(2)


@dataclass(slots=True)
class _Pending:
    rewind: Rewind
    received: list[bytes] = field(default_factory=list)


class Continuations:
    """Runs continuations of one campaign. A context manager that ends all its processes.

    Args:
        campaign: a campaign of the simulation.
        jobs: number of processes that work at once.
        fork: os.fork, or a test's substitute.

    Attributes:
        group: the process group; None if no process could be started.
        repeated: number of continuations run from the start because a fork failed or a process was killed.
    """

    def __init__(self, campaign: Campaign, jobs: int, *, fork: Fork = os.fork) -> None:
        self.repeated = 0
        self._campaign = campaign
        self._jobs = jobs
        self._snapshots: dict[int, socket.socket] = {}  # by time; the last used one is last
        self._pending: dict[int, _Pending] = {}  # by the descriptor of its pipe
        self.group: int | None = None
        _adopt_orphans(True)
        with contextlib.suppress(OSError):  # then every continuation is run from the start
            self.group, self._snapshots[0] = start_snapshot(campaign, fork)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def outcomes(self, rewinds: Iterable[Rewind], until: float) -> Iterator[tuple[Rewind, Outcome]]:
        """Yield the outcome of each in the order of their ends; those still running at `until` are abandoned.

        Args:
            until: time limit, by `time.monotonic`.
        """
        waiting = list(rewinds)
        try:
            while waiting or self._pending:
                while waiting and len(self._pending) < self._jobs and time.monotonic() < until:
                    rewind = waiting.pop(0)
                    if not self._begin(rewind):
                        yield rewind, self._repeat(rewind)
                if time.monotonic() >= until:
                    return
                if self._pending:
                    yield from self._ended(until)
        finally:
            for descriptor in list(self._pending):
                self._forget(descriptor)

    def close(self) -> None:
        """Kill every process and wait for its end."""
        for commands in self._snapshots.values():
            commands.close()
        self._snapshots.clear()
        for descriptor in list(self._pending):
            self._forget(descriptor)
        if self.group is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.waitpid(-self.group, 0)
            self.group = None
        _adopt_orphans(False)

    def _begin(self, rewind: Rewind) -> bool:
        """Begin a continuation; return whether a process works on it."""
        commands = self._snapshot_at(rewind.at_ns)
        if commands is None:
            return False
        reader, writer = os.pipe()
        try:
            command = orjson.dumps({"rewind": astuple(rewind)})
            socket.send_fds(commands, [command], [writer])
        except OSError:
            os.close(reader)
            self._drop(rewind.at_ns)
            return False
        finally:
            os.close(writer)
        self._pending[reader] = _Pending(rewind)
        return True

    def _snapshot_at(self, at_ns: int) -> socket.socket | None:
        if at_ns in self._snapshots:
            self._snapshots[at_ns] = self._snapshots.pop(at_ns)
            return self._snapshots[at_ns]
        before = max((time_ns for time_ns in self._snapshots if time_ns < at_ns), default=None)
        if before is None:
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            command = orjson.dumps({"at_ns": at_ns})
            socket.send_fds(self._snapshots[before], [command], [theirs.fileno()])
        except OSError:
            ours.close()
            self._drop(before)
            return self._snapshot_at(at_ns)
        finally:
            theirs.close()
        self._snapshots[at_ns] = ours
        while len(self._snapshots) > SNAPSHOTS_MAX:
            self._drop(next(time_ns for time_ns in self._snapshots if time_ns))
        return ours

    def _drop(self, at_ns: int) -> None:
        self._snapshots.pop(at_ns).close()

    def _ended(self, until: float) -> Iterator[tuple[Rewind, Outcome]]:
        """Wait until a continuation has ended, or the time is over."""
        poll = select.poll()
        for descriptor in self._pending:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(max(until - time.monotonic(), 0.0) * 1000):
            pending = self._pending[descriptor]
            if data := os.read(descriptor, PIPE_BYTES):
                pending.received.append(data)
                continue
            self._forget(descriptor)
            yield pending.rewind, self._outcome(pending)

    def _forget(self, descriptor: int) -> None:
        del self._pending[descriptor]
        os.close(descriptor)

    def _outcome(self, pending: _Pending) -> Outcome:
        try:
            return Outcome.from_json(orjson.loads(b"".join(pending.received)))
        except orjson.JSONDecodeError:  # its process was killed or never started
            return self._repeat(pending.rewind)

    def _repeat(self, rewind: Rewind) -> Outcome:
        self.repeated += 1
        started = time.process_time()
        try:
            result = repeated(self._campaign, rewind)
            return outcome_of(result, round(time.process_time() - started, 3))
        except Exception as error:
            return outcome_of_error(error)


def _adopt_orphans(is_on: bool) -> None:
    """Set whether this process becomes the parent of orphaned descendants, where Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0)
