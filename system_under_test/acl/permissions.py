"""Which permissions a request needs (RocketMQ: PlainAccessValidator.parse, Permission)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag

from system_under_test.protocol import json_dialect
from system_under_test.protocol.bodies import HeartbeatData
from system_under_test.protocol.codes import RequestCode
from system_under_test.protocol.command import RemotingCommand

RETRY_PREFIX = "%RETRY%"  # resources of groups are named like their retry topics


class Permission(IntFlag):
    DENY = 1
    PUB = 4
    SUB = 8


PERMISSIONS = {
    "DENY": Permission.DENY,
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
}

# What only administrators may ask for (RocketMQ 4.9.8, Permission.ADMIN_CODE).
ADMIN_CODES_OF_ROCKETMQ: frozenset[int] = frozenset(
    (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
    )
)
# There, every account may make itself an administrator, move the offsets of others and delete files.
ADMIN_CODES: frozenset[int] = ADMIN_CODES_OF_ROCKETMQ | {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    RequestCode.DELETE_ACL_CONFIG,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.CLONE_GROUP_OFFSET,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.RESUME_CHECK_HALF_MESSAGE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One permission on one topic, or on a group under the name of its retry topic."""

    resource: str
    permission: Permission

    @property
    def is_group(self) -> bool:
        return self.resource.startswith(RETRY_PREFIX)


def needs_of(request: RemotingCommand) -> list[Need]:
    """What the sender must be allowed to do. Raises ValueError for a heartbeat that cannot be read."""
    return [
        Need(resource=resource, permission=permission)
        for resource, permission in _needs(request)
        if resource is not None
    ]


def _needs(request: RemotingCommand) -> Iterator[tuple[str | None, Permission]]:
    ext = request.ext_fields
    match request.code:
        case RequestCode.SEND_MESSAGE:
            yield ext.get("topic"), Permission.PUB
        case RequestCode.SEND_MESSAGE_V2 | RequestCode.SEND_BATCH_MESSAGE:
            yield ext.get("b"), Permission.PUB
        case RequestCode.CONSUMER_SEND_MSG_BACK:
            yield ext.get("originTopic"), Permission.PUB
            yield _group(ext.get("group")), Permission.SUB
        case RequestCode.PULL_MESSAGE | RequestCode.UPDATE_CONSUMER_OFFSET:
            yield ext.get("topic"), Permission.SUB
            yield _group(ext.get("consumerGroup")), Permission.SUB
        case RequestCode.QUERY_MESSAGE:
            yield ext.get("topic"), Permission.SUB
        case RequestCode.UNREGISTER_CLIENT | RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            yield _group(ext.get("consumerGroup")), Permission.SUB
        case RequestCode.HEART_BEAT:
            heartbeat = HeartbeatData.from_json(json_dialect.loads_request(request.body))
            for consumer in heartbeat.consumers:
                yield _group(consumer.group_name), Permission.SUB
                for subscription in consumer.subscriptions:
                    yield subscription.topic, Permission.SUB


def _group(name: str | None) -> str | None:
    return None if name is None else RETRY_PREFIX + name
