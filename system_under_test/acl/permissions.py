"""Maps each request to the permissions that it needs (RocketMQ: PlainAccessValidator.parse, Permission)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntFlag

from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import HeartbeatData
from staticfire.system_under_test.protocol.bodies_queues import QueueLockRequest
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import (
    ConsumerSendMsgBackHeader,
    EndTransactionHeader,
    ViewMessageHeader,
)
from staticfire.system_under_test.protocol.headers_admin import ConsumeMessageDirectlyHeader
from staticfire.system_under_test.protocol.message import parse_offset_message_id

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

# Requests that only administrators may send (RocketMQ 4.9.8, Permission.ADMIN_CODE).
ADMIN_CODES_OF_ROCKETMQ: frozenset[int] = frozenset(
    (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
    )
)
# In RocketMQ every account may make itself an administrator, move the offsets of others and delete files.
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


# The topic to which the message at a physical offset was sent. Raises ValueError if no message begins there.
TopicAt = Callable[[int], str]
NeedsOf = Callable[[RemotingCommand, TopicAt], list[Need]]


def needs_in_rocketmq(request: RemotingCommand, _topic_at: TopicAt) -> list[Need]:
    """The permissions that the sender needs in RocketMQ. Raises ValueError for a heartbeat that cannot be read."""
    return _listed(_needs(request))


def needs_of(request: RemotingCommand, topic_at: TopicAt) -> list[Need]:
    """Those of RocketMQ, and permissions on messages that a request names by offset and on queues that it locks.

    In RocketMQ every account may read any message by its offset, end the transactions of others and lock their queues.

    Raises ValueError: the request cannot be read, or no message begins at the offset that it names.
    """
    return needs_in_rocketmq(request, topic_at) + _listed(_further_needs(request, topic_at))


def _listed(needs: Iterator[tuple[str | None, Permission]]) -> list[Need]:
    return [
        Need(resource=resource, permission=permission)
        for resource, permission in needs
        if resource is not None
    ]


def _further_needs(
    request: RemotingCommand, topic_at: TopicAt
) -> Iterator[tuple[str | None, Permission]]:
    ext = request.ext_fields
    match request.code:
        case RequestCode.VIEW_MESSAGE_BY_ID:
            yield topic_at(ViewMessageHeader.from_ext(ext).offset), Permission.SUB
        case RequestCode.CONSUMER_SEND_MSG_BACK:
            yield topic_at(ConsumerSendMsgBackHeader.from_ext(ext).offset), Permission.SUB
        case RequestCode.END_TRANSACTION:
            yield topic_at(EndTransactionHeader.from_ext(ext).commit_log_offset), Permission.PUB
        case RequestCode.CONSUME_MESSAGE_DIRECTLY:
            header = ConsumeMessageDirectlyHeader.from_ext(ext)
            yield _group(header.consumer_group), Permission.SUB
            yield topic_at(parse_offset_message_id(header.msg_id or "")[2]), Permission.SUB
        case RequestCode.LOCK_BATCH_MQ | RequestCode.UNLOCK_BATCH_MQ:
            locks = QueueLockRequest.from_bytes(request.body)
            yield _group(locks.consumer_group), Permission.SUB
            for queue in locks.queues:
                yield queue.topic, Permission.SUB


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
