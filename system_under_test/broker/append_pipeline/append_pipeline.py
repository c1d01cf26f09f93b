"""Runs the steps that follow an append, a flush or a replication: answers, next flush, transfers, dispatch.

(In RocketMQ: CommitLog.submitFlushRequest, GroupTransferService and ReputMessageService.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from staticfire.system_under_test.broker.append_pipeline.acknowledge import (
    Acknowledger,
    make_waiting_sends,
)
from staticfire.system_under_test.broker.append_pipeline.flush import Flusher
from staticfire.system_under_test.broker.append_pipeline.log_commits import LogCommits
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.flow_control.flow_control import FlowControl
from staticfire.system_under_test.broker.policies.policies import BrokerPolicies
from staticfire.system_under_test.broker.replication.ha import HaService
from staticfire.system_under_test.broker.sending.pending_sends import Answer
from staticfire.system_under_test.broker.statistics.put_times import PutTimes
from staticfire.system_under_test.remoting import TurnOutput
from staticfire.system_under_test.runtime.env import Worker
from staticfire.system_under_test.runtime.worker import ExecutorWorker
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.flush import FlushTask, QueueFlushTask
from staticfire.system_under_test.store.results import Dispatched
from staticfire.system_under_test.store.retention.retention import Removal

# With async flush no send waits for a flush, but consumers do: they see durable messages only. (RocketMQ: 500 ms, as
# its consumers see unflushed messages, too.)
FLUSH_DISTANCE_S = 0.005
DISPATCHED_AT_ONCE = 4_000  # records; more wait for the next turn of the loop


class AppendPipeline:
    """Drives the messages of one log from put to visible. `on_visible` gets those that have become visible.

    Args:
        worker: flushes the log.
        turn_output: the output of the connections on which sends and held pulls are answered.
        on_failure: called when a write or an fsync has failed: the broker must not promise anything any more.
    """

    def __init__(
        self,
        config: BrokerConfig,
        policies: BrokerPolicies,
        store: MessageStore,
        ha: HaService,
        flow: FlowControl,
        put_times: PutTimes,
        worker: Worker,
        turn_output: TurnOutput,
        *,
        on_failure: Callable[[Exception], None],
        now_ns: Callable[[], int],
    ) -> None:
        self._config = config
        self._policies = policies
        self._store = store
        self._ha = ha
        self._flow = flow
        self._turn_output = turn_output
        self._on_failure = on_failure
        self._log_flusher = Flusher(
            worker,
            self._begin_flush,
            finish=self._on_flushed,
            fail=self.failed,
            distance_s=0.0 if config.sync_flush else FLUSH_DISTANCE_S,
        )
        self._queue_flusher = Flusher(
            ExecutorWorker(),
            store.begin_queue_flush,
            finish=self._on_queues_flushed,
            fail=self.failed,
        )
        self._acknowledger = Acknowledger(
            store,
            ha,
            make_waiting_sends(config, put_times),
            policies.replication,
            put_times,
            now_ns=now_ns,
        )
        self.commits = LogCommits(config, store, flow, on_commit=self._after_puts, now_ns=now_ns)
        self._is_scheduled = False
        self._goes_on = False  # dispatch goes on in the next turn
        self.on_visible: Callable[[list[Dispatched]], None] = _ignore

    # What other components call

    def options_changed(self) -> None:
        """Apply changed timeouts of sends."""
        self._acknowledger.options_changed(self._config)

    def acknowledge(self, end_offset: int, answer: Answer, waits: bool) -> None:
        """Answer a put once it is safe, without `waits` once it is written; begin its flush at the end of this turn."""
        self._acknowledger.acknowledge(end_offset, answer, waits)
        if not self._is_scheduled:  # one flush and one transfer for all puts of this turn
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._after_puts)

    def wake(self) -> None:
        """Begin a flush of appended bytes if none is in flight; an earlier write failure shows there, too."""
        self._log_flusher.wake()

    def flush_queues(self) -> None:
        """Begin a flush of queue entries, and dispatch again if a full disk has postponed that."""
        self.dispatch()
        self._queue_flusher.wake()
        self._end_if_failed()

    def copies_safe_end(self) -> int:
        """The end offset up to which copies made by the broker itself count as safe."""
        return self._policies.services.copies.safe_end(self._store, self._ha, self._config.role)

    def dispatch(self) -> None:
        """Make messages visible to consumers, and wake the pulls that wait for them."""
        store = self._store
        end_offset = self._policies.visible_end(store, self._ha, self._config.role)
        if end_offset <= store.dispatched_offset:
            return
        part_end = store.end_of_next(DISPATCHED_AT_ONCE)
        if part_end is not None and part_end < end_offset:
            end_offset = part_end
            self._dispatch_soon()
        if end_offset > store.flushed_offset:
            # 4.9.8 shows messages that are not durable, but they must be readable
            store.write_out()
        try:
            visible = store.dispatch(end_offset)
        except StoreError as error:
            self._fail(error)
            return
        if visible:
            self.on_visible(visible)
        else:
            self._end_if_failed()

    def _end_if_failed(self) -> None:
        """Report a failed write of an index or queue file even if nothing is appended any more."""
        if self._store.failure is not None:
            self._log_flusher.wake()  # its task raises the failure

    async def dispatch_all(self) -> None:
        """Return when everything that consumers may see is visible."""
        self.dispatch()
        while self._goes_on:
            await asyncio.sleep(0)

    def _dispatch_soon(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            asyncio.get_running_loop().call_soon(self._dispatch_more)

    def _dispatch_more(self) -> None:
        if self._goes_on:
            self._goes_on = False
            with self._turn_output:
                self.dispatch()

    # The end

    async def drain_log(self) -> None:
        """Return when everything appended is durable."""
        self._store.commit()
        await self._log_flusher.drain()

    async def drain_queues(self) -> None:
        """Return when everything dispatched is durable."""
        await self._queue_flusher.drain()

    def stop_answering(self) -> None:
        """Answer the sends that can be answered, and watch no deadline any more."""
        self._acknowledger.settle()
        self._acknowledger.stop()

    def close(self) -> None:
        """Stop flushing and dispatching; closing the store flushes and dispatches the rest."""
        self._goes_on = False
        self._log_flusher.close()
        self._queue_flusher.close()

    # Events

    def replicated(self) -> None:
        """A replica has acknowledged a higher offset."""
        with self._turn_output:
            self._acknowledger.settle()
            self.dispatch()

    def slaves_lost(self) -> None:
        """A replica is gone."""
        self._acknowledger.slaves_lost()
        self.dispatch()

    def failed(self, task: FlushTask | QueueFlushTask | Removal | None, error: OSError) -> None:
        """`task` has failed (None: a file operation of the retention): its result on the disk is unknown."""
        self._store.fail_flush(task, error)
        if self._store.failure is not None:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._on_failure(error)
        self._acknowledger.fail_all()

    def _after_puts(self) -> None:
        self._is_scheduled = False
        with self._turn_output:
            self._advance()

    def _advance(self) -> None:
        if self._acknowledger.awaits_write or self._config.transient_pool:
            self.commits.write_out()  # one write for all puts of a turn
            if self._store.failure is None:
                self._acknowledger.written()
        self._log_flusher.wake()
        self._flow.appended()
        if not self._config.sync_flush or self._policies.replication.sends_unflushed:
            self._ha.notify_append()
        self.dispatch()

    def _begin_flush(self) -> FlushTask | None:
        task = self._store.begin_flush()
        if task is not None:
            self._flow.flush_began()
        return task

    def _on_flushed(self, task: FlushTask) -> None:
        self._store.finish_flush(task)
        self._flow.flush_ended()
        with self._turn_output:
            self._acknowledger.settle()
            self._ha.notify_append()
            self._ha.notify_flushed()
            self.dispatch()
            self._log_flusher.wake()  # for messages put meanwhile

    def _on_queues_flushed(self, task: QueueFlushTask) -> None:
        self._store.finish_queue_flush(task)
        self._log_flusher.wake()  # finds out if the checkpoint could not be written


def _ignore(_visible: list[Dispatched]) -> None:
    """The default of `on_visible`, until the processors exist."""
