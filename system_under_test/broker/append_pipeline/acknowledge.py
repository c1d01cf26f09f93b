"""Answers stored sends when they are safe (RocketMQ, CommitLog.handleDiskFlush and handleHA)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.broker.replication.ha import HaService
from staticfire.system_under_test.broker.sending.pending_sends import Answer, PendingSends
from staticfire.system_under_test.broker.statistics.put_times import PutTimes
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.replication.replication_policy import ReplicationPolicy

NS_PER_S = 1_000_000_000


class Acknowledger:
    """Holds the answers to sends until their messages are flushed and replicated, with one timer for all."""

    def __init__(
        self,
        store: MessageStore,
        ha: HaService,
        waiting: PendingSends,
        policy: ReplicationPolicy,
        times: PutTimes,
        *,
        now_ns: Callable[[], int],
    ) -> None:
        self._policy = policy
        self._times = times
        self._store = store
        self._ha = ha
        self._waiting = waiting
        self._now_ns = now_ns
        self._timer: asyncio.TimerHandle | None = None
        self._unwritten: list[Answer] = []
        self._unwritten_since_ns = 0  # when the first message of `_unwritten` was stored

    def acknowledge(self, end_offset: int, answer: Answer, waits: bool) -> None:
        """Answer a stored message: if it `waits`, once it is safe or its time is up, else once it is written."""
        if not waits or not self._waiting.needed:
            if not self._unwritten:
                self._unwritten_since_ns = self._now_ns()
            self._unwritten.append(answer)
            return
        now_ns = self._now_ns()
        usable = self._waiting.needs_slave and self._ha.slave_available(end_offset)
        self._waiting.add(end_offset, answer, now_ns=now_ns, slave_usable=usable)
        if self._timer is None:
            self._arm(now_ns)

    @property
    def awaits_write(self) -> bool:
        """Whether some send waits only for the write to the page cache."""
        return bool(self._unwritten)

    def written(self) -> None:
        """Stored messages are in the page cache now: answer the sends that waited only for that."""
        answers, self._unwritten = self._unwritten, []
        if answers:  # one clock reading a turn: all answers count with the time of the first one
            self._times.took(self._now_ns() - self._unwritten_since_ns, len(answers))
        for answer in answers:
            answer(ResponseCode.SUCCESS)

    def settle(self) -> None:
        """Answer the sends for which the flushed and replicated offsets now suffice, or whose time is up."""
        if self._waiting:
            self._waiting.settle(
                now_ns=self._now_ns(),
                flushed_offset=self._store.flushed_offset,
                replicated_offset=self._ha.replicated_offset,
            )

    def options_changed(self, config: BrokerConfig) -> None:
        """Apply changed timeouts, also to sends that already wait."""
        set_timeouts(self._waiting, config)
        if self._timer is not None:
            self._timer.cancel()
            self._check_deadlines()

    def slaves_lost(self) -> None:
        """A replica is gone; if it was the last usable one, answer the sends that waited for it."""
        if self._policy.waits_for_lost_slaves:
            return
        if self._waiting and not self._ha.slave_available(self._store.end_offset):
            self._waiting.slaves_lost()
            self.settle()

    def fail_all(self) -> None:
        """The disk has failed: answer every waiting send with FLUSH_DISK_TIMEOUT."""
        answers, self._unwritten = self._unwritten, []
        for answer in answers:
            answer(ResponseCode.FLUSH_DISK_TIMEOUT)
        self._waiting.fail_all()
        self.stop()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, now_ns: int) -> None:
        """Set the timer for the first deadline. Answers do not move it: a needless check costs less than many moves."""
        deadline_ns = self._waiting.next_deadline_ns(now_ns)
        if deadline_ns is not None:
            delay_s = max(0, deadline_ns - now_ns) / NS_PER_S
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        self.settle()
        self._arm(self._now_ns())


def make_waiting_sends(config: BrokerConfig, times: PutTimes) -> PendingSends:
    waiting = PendingSends(
        sync_flush=config.sync_flush,
        sync_replication=config.role is BrokerRole.SYNC_MASTER,
        flush_timeout_ns=0,
        slave_timeout_ns=0,
        times=times,
    )
    set_timeouts(waiting, config)
    return waiting


def set_timeouts(waiting: PendingSends, config: BrokerConfig) -> None:
    waiting.flush_timeout_ns = int(config.sync_flush_timeout_s * NS_PER_S)
    waiting.slave_timeout_ns = int(config.slave_timeout_s * NS_PER_S)
