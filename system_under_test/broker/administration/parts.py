"""The components of the broker that the admin handlers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from staticfire.system_under_test.broker.administration.live_config import LiveConfig
from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.clients.queue_locks import QueueLocks
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.consumer_filters import ConsumerFilters
from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.metadata.topics import Topics
from staticfire.system_under_test.broker.policies.admin_policy import AdminPolicy
from staticfire.system_under_test.broker.pulling.pull_filters import PullFilters
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics
from staticfire.system_under_test.broker.statistics.store_rates import StoreRates
from staticfire.system_under_test.runtime.env import Clock, Storage
from staticfire.system_under_test.store.assembly.message_store import MessageStore

# Returns further lines of code 28, from one component.
Figures = Callable[[], dict[str, object]]

# Adds fields to the table of topics that slaves copy (code 21).
OfTopics = Callable[[dict[str, object]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminParts:
    """The components of one broker that administrators may read or change."""

    config: BrokerConfig
    live_config: LiveConfig
    policy: AdminPolicy
    store: MessageStore
    topics: Topics
    groups: SubscriptionGroups
    offsets: ConsumerOffsets
    clients: Clients
    filters: ConsumerFilters
    pull_filters: PullFilters
    locks: QueueLocks
    statistics: BrokerStatistics
    rates: StoreRates
    storage: Storage
    clock: Clock
    figures: list[Figures]
    of_topics: list[OfTopics]
