"""All handlers of administration (RocketMQ, AdminBrokerProcessor)."""

from __future__ import annotations

from system_under_test.broker.admin_config import ConfigRequests
from system_under_test.broker.admin_consumers import ConsumerRequests
from system_under_test.broker.admin_groups import GroupRequests
from system_under_test.broker.admin_offsets import OffsetRequests
from system_under_test.broker.admin_parts import AdminParts
from system_under_test.broker.admin_statistics import StatisticsRequests
from system_under_test.broker.admin_topics import TopicRequests
from system_under_test.broker.relays import RelayRequests
from system_under_test.remoting import Handler


def make_admin_handlers(parts: AdminParts) -> dict[int, Handler]:
    """Handlers by request code."""
    return {
        **TopicRequests(parts).handlers(),
        **GroupRequests(parts).handlers(),
        **OffsetRequests(parts).handlers(),
        **ConsumerRequests(parts).handlers(),
        **ConfigRequests(parts).handlers(),
        **StatisticsRequests(parts, started_at_ms=parts.clock.wall_ms()).handlers(),
        **RelayRequests(parts).handlers(),
    }
