"""Group commit, the shell: when a stored message is answered (RocketMQ, CommitLog.handleDiskFlush and handleHA)."""

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
    """Lets senders wait until their messages are flushed and replicated. One timer stands for all of them."""

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
        self._unwritten_since_ns = 0  # when the first of them was stored

    def acknowledge(self, end_offset: int, answer: Answer, waits: bool) -> None:
        """Answer a stored message: once it is written if that is enough, else when it is safe or out of time."""
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
        """Whether a send waits for the page cache alone."""
        return bool(self._unwritten)

    def written(self) -> None:
        """What was stored is in the page cache now and survives this process: that is all that some wait for."""
        answers, self._unwritten = self._unwritten, []
        if answers:  # one reading of the clock a turn; each counts with the time of the first one
            self._times.took(self._now_ns() - self._unwritten_since_ns, len(answers))
        for answer in answers:
            answer(ResponseCode.SUCCESS)

    def settle(self) -> None:
        """Something was flushed or replicated: answer the producers that waited for that."""
        if self._waiting:
            self._waiting.settle(
                now_ns=self._now_ns(),
                flushed_offset=self._store.flushed_offset,
                replicated_offset=self._ha.replicated_offset,
            )

    def options_changed(self, config: BrokerConfig) -> None:
        """Take over how long sends may wait, also for those that already do."""
        set_timeouts(self._waiting, config)
        if self._timer is not None:
            self._timer.cancel()
            self._check_deadlines()

    def slaves_lost(self) -> None:
        """A replica has gone; if it was the last usable one, no send waits for it any longer."""
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
        """Set the timer for the head. It is not moved by answers: a look in vain costs less than many moves."""
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
