"""Composes what administrators may read and change: counters, locks, options, and their handlers."""

from __future__ import annotations

from staticfire.system_under_test.broker.administration.config_requests import ConfigRequests
from staticfire.system_under_test.broker.administration.consumers_requests import ConsumerRequests
from staticfire.system_under_test.broker.administration.groups_requests import GroupRequests
from staticfire.system_under_test.broker.administration.live_config import LiveConfig
from staticfire.system_under_test.broker.administration.offsets_requests import OffsetRequests
from staticfire.system_under_test.broker.administration.parts import AdminParts, Figures, OfTopics
from staticfire.system_under_test.broker.administration.queue_entries import QueueEntryRequests
from staticfire.system_under_test.broker.administration.relays import RelayRequests
from staticfire.system_under_test.broker.administration.statistics_requests import (
    StatisticsRequests,
)
from staticfire.system_under_test.broker.administration.topics_requests import TopicRequests
from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.clients.queue_locks import QueueLocks
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.consumer_filters import ConsumerFilters
from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.metadata.topics import Topics
from staticfire.system_under_test.broker.periodic import Schedule
from staticfire.system_under_test.broker.policies.admin_policy import AdminPolicy
from staticfire.system_under_test.broker.pulling.pull_filters import PullFilters
from staticfire.system_under_test.broker.pulling.slow_consumers import (
    CHECK_INTERVAL_S,
    SlowConsumers,
)
from staticfire.system_under_test.broker.statistics.put_times import ROUND_S
from staticfire.system_under_test.broker.statistics.statistics import (
    SAMPLING_INTERVAL_S,
    BrokerStatistics,
)
from staticfire.system_under_test.broker.statistics.store_rates import (
    SAMPLING_INTERVAL_S as RATE_INTERVAL_S,
)
from staticfire.system_under_test.broker.statistics.store_rates import StoreRates
from staticfire.system_under_test.configuration.config import BROKER_PROPERTIES
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.remoting import Handler
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.assembly.message_store import MessageStore

LOCK_SCAN_INTERVAL_S = 60.0


class Administration:
    """The counters of a broker, its queue locks and its options.

    `figures`: functions that add lines to code 28; `of_topics`: functions that add fields to code 21.
    """

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        policy: AdminPolicy,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        clients: Clients,
        filters: ConsumerFilters,
        pull_filters: PullFilters,
    ) -> None:
        self._clock = env.clock
        self._log = env.log
        self.locks = QueueLocks(now_ns=env.clock.monotonic_ns, on_expired=self._lock_expired)
        self.statistics = BrokerStatistics(
            config.cluster_name, now_ms=env.clock.wall_ms, utc_offset_s=config.utc_offset_s
        )
        self.rates = StoreRates(self.statistics)
        self.figures: list[Figures] = []
        self.of_topics: list[OfTopics] = []
        self.live_config = LiveConfig(
            config,
            BROKER_PROPERTIES,
            env.storage,
            now_ms=env.clock.wall_ms,
            ignores_bad_values=policy.ignores_bad_options,
            on_permission=topics.mark_changed,
        )
        self._slow_consumers = SlowConsumers(config, store, groups, self.statistics, env.log)
        self._parts = AdminParts(
            config=config,
            live_config=self.live_config,
            policy=policy,
            store=store,
            topics=topics,
            groups=groups,
            offsets=offsets,
            clients=clients,
            filters=filters,
            pull_filters=pull_filters,
            locks=self.locks,
            statistics=self.statistics,
            rates=self.rates,
            storage=env.storage,
            clock=env.clock,
            figures=self.figures,
            of_topics=self.of_topics,
        )

    def handlers(self) -> dict[int, Handler]:
        """Handlers by request code (RocketMQ, AdminBrokerProcessor)."""
        parts = self._parts
        return {
            **TopicRequests(parts).handlers(),
            **GroupRequests(parts).handlers(),
            **OffsetRequests(parts).handlers(),
            **QueueEntryRequests(parts).handlers(),
            **ConsumerRequests(parts).handlers(),
            **ConfigRequests(parts).handlers(),
            **StatisticsRequests(parts, started_at_ms=parts.clock.wall_ms()).handlers(),
            **RelayRequests(parts).handlers(),
        }

    def start(self, schedule: Schedule) -> None:
        """Schedule the sampling of counters and the removal of expired entries."""
        schedule.call("statistics", SAMPLING_INTERVAL_S, self.statistics.sample)
        schedule.call("rates", RATE_INTERVAL_S, self._sample_rates)
        schedule.call("put times", ROUND_S, self.rates.put_times.begin_round)
        schedule.call("queue locks", LOCK_SCAN_INTERVAL_S, self.locks.forget_expired)
        schedule.call("slow consumers", CHECK_INTERVAL_S, self._slow_consumers.check)

    def _lock_expired(self, group: str, queue: MessageQueue) -> None:
        """Log that a lock has expired and another client has got it: its owner did not renew it for a minute."""
        self._log.warning("queue lock had expired", group=group, queue=str(queue))

    def _sample_rates(self) -> None:
        self.rates.sample(self._clock.monotonic_ns())
