"""All handlers of administration (RocketMQ, AdminBrokerProcessor)."""

from __future__ import annotations

from staticfire.system_under_test.broker.administration.config_requests import ConfigRequests
from staticfire.system_under_test.broker.administration.consumers_requests import ConsumerRequests
from staticfire.system_under_test.broker.administration.groups_requests import GroupRequests
from staticfire.system_under_test.broker.administration.offsets_requests import OffsetRequests
from staticfire.system_under_test.broker.administration.parts import AdminParts
from staticfire.system_under_test.broker.administration.queue_entries import QueueEntryRequests
from staticfire.system_under_test.broker.administration.relays import RelayRequests
from staticfire.system_under_test.broker.administration.statistics_requests import (
    StatisticsRequests,
)
from staticfire.system_under_test.broker.administration.topics_requests import TopicRequests
from staticfire.system_under_test.remoting import Handler


def make_admin_handlers(parts: AdminParts) -> dict[int, Handler]:
    """Handlers by request code."""
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
