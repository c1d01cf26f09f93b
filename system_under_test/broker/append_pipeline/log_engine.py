"""One broker's log and its services: replication, flow control, append pipeline, retention."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from staticfire.system_under_test.broker.append_pipeline.append_pipeline import AppendPipeline
from staticfire.system_under_test.broker.append_pipeline.retention import Cleaning
from staticfire.system_under_test.broker.append_pipeline.store_config import make_store_config
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.flow_control.flow_control import FlowControl
from staticfire.system_under_test.broker.periodic import Schedule
from staticfire.system_under_test.broker.policies.policies import BrokerPolicies
from staticfire.system_under_test.broker.replication.ha import HaService
from staticfire.system_under_test.broker.replication.ha_config import HaEvents, make_ha_config
from staticfire.system_under_test.broker.statistics.put_times import PutTimes
from staticfire.system_under_test.remoting import TurnOutput
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.recovery.recovery import RecoveryReport


class LogEngine:
    """Composes the log's services; callers use the services directly.

    Args:
        on_failure: called when a write or an fsync has failed: the broker must not promise anything any more.
        on_peer_heard: see HaEvents.
        on_caught_up: see HaEvents.
    """

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        policies: BrokerPolicies,
        store: MessageStore,
        put_times: PutTimes,
        turn_output: TurnOutput,
        *,
        on_failure: Callable[[Exception], None],
        on_peer_heard: Callable[[str], Awaitable[bool]],
        on_caught_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._log = env.log
        self._config = config
        self._policies = policies
        now_ns = env.clock.monotonic_ns
        self.store = store
        events = HaEvents(
            on_progress=lambda: self.progress.replicated(),
            on_slaves_lost=lambda: self.progress.slaves_lost(),
            on_received=lambda: self.progress.wake(),
            on_peer_heard=on_peer_heard,
            on_caught_up=on_caught_up,
        )
        self.ha = HaService(env, store, make_ha_config(config, policies.replication), events)
        self.turn_output = turn_output
        self.flow = FlowControl(
            config,
            {},
            unflushed_bytes=self._unflushed_bytes,
            now_ns=now_ns,
            share=self.turn_output.share,
        )
        self.progress = AppendPipeline(
            config,
            policies,
            store,
            self.ha,
            self.flow,
            put_times,
            env.make_worker(),
            self.turn_output,
            on_failure=on_failure,
            now_ns=now_ns,
        )

    def _unflushed_bytes(self) -> int:
        return self.store.end_offset - self.store.flushed_offset

    def make_cleaning(
        self,
        *,
        is_topic: Callable[[str], bool],
        is_ready: Callable[[], bool],
        least_committed: Callable[[str, int], int | None],
    ) -> Cleaning:
        """Make the service that runs the store's retention; the arguments are those of Cleaning and Retention."""
        retention = self.store.retention
        retention.may_force = self._policies.may_force
        retention.least_committed = least_committed
        self.store.disks.check_interval_s = self._policies.full_disk_look_s
        return Cleaning(
            self._config,
            self.store,
            fail=self.progress.failed,
            is_topic=is_topic,
            is_ready=is_ready,
        )

    def open(self) -> RecoveryReport:
        """Recover the store. Raises StoreError."""
        report = self.store.open()
        self._log.info(
            "store opened",
            clean=report.clean,
            end_offset=report.end_offset,
            cut_bytes=report.cut_bytes,
            bad_checksum=report.bad_checksum,
            damaged=len(report.damaged),
            redispatched=report.messages_redispatched,
        )
        return report

    def options_changed(self) -> None:
        """Apply changed options of a running broker."""
        config = self._config
        self.store.options_changed(make_store_config(config))
        self.ha.options_changed(make_ha_config(config, self._policies.replication))
        self.flow.options_changed(config)
        self.progress.options_changed()

    def schedule(self, schedule: Schedule) -> None:
        self.progress.commits.schedule(schedule)
        interval_s = self._config.queue_flush_interval_s
        schedule.call("queue flush", interval_s, self.progress.flush_queues)

    def queue_end(self, topic: str, queue_id: int) -> int:
        """The queue offset of the next message, also of messages that wait for a slave to become visible."""
        return self.store.next_queue_offset(topic, queue_id)
