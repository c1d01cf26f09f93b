"""Disables groups that fall too far behind (RocketMQ, BrokerController.protectBroker)."""

from __future__ import annotations

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics
from staticfire.system_under_test.runtime.env import Log
from staticfire.system_under_test.store.assembly.message_store import MessageStore

CHECK_INTERVAL_S = 180.0


class SlowConsumers:
    """Checks how many bytes of the log lie beyond each group's last pull. Off by default."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        groups: SubscriptionGroups,
        statistics: BrokerStatistics,
        log: Log,
    ) -> None:
        self._config = config
        self._store = store
        self._groups = groups
        self._statistics = statistics
        self._log = log

    def check(self) -> None:
        """Disable the groups that are too far behind. An administrator has to allow them again (code 200)."""
        if not self._config.disable_slow_consumers:
            return
        for group, topic, queue_id, next_offset in self._statistics.positions():
            behind_bytes = self._behind(topic, queue_id, next_offset)
            if behind_bytes > self._config.consumer_fall_behind_max:
                self._disable(group, topic, behind_bytes)

    def _behind(self, topic: str, queue_id: int, next_offset: int) -> int:
        entries = self._store.queue_view.entries(topic, queue_id, next_offset, 1)
        return self._store.end_offset - entries[0].physical_offset if entries else 0

    def _disable(self, group: str, topic: str, behind_bytes: int) -> None:
        if self._groups.disable_consume(group):
            self._log.warning(
                "consumer is too slow and was disabled",
                group=group,
                topic=topic,
                behind_bytes=behind_bytes,
            )
