"""Storing messages: codes 10 and 310 (RocketMQ, SendMessageProcessor)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from system_under_test.broker.config import BrokerConfig
from system_under_test.broker.subscription_groups import SubscriptionGroups
from system_under_test.broker.topics import (
    FORBIDDEN_TOPICS,
    PERM_WRITE,
    RETRY_PREFIX,
    Topics,
    topic_name_error,
)
from system_under_test.broker.waiting import Answer
from system_under_test.protocol.bodies import TopicConfig
from system_under_test.protocol.codes import RequestCode, ResponseCode
from system_under_test.protocol.command import RemotingCommand
from system_under_test.protocol.headers import SendMessageHeader
from system_under_test.protocol.message import Message, decode_properties
from system_under_test.remoting import Connection
from system_under_test.store.message_store import MessageStore, PutResult, PutStatus

TRANSACTION_TYPE_MASK = 0xC  # RocketMQ, MessageSysFlag: 4 prepared, 8 commit, 12 rollback
WAIT_PROPERTY = "WAIT"
DELAY_PROPERTY = "DELAY"
TRANSACTION_PROPERTY = "TRAN_MSG"
CLUSTER_PROPERTY = "CLUSTER"

PUT_CODES = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}

# Called with the end offset of a stored message, whoever waits for it, and its WAIT property.
Acknowledge = Callable[[int, Answer, bool], None]


class SendRefused(Exception):
    """A check failed: the message is not stored."""

    def __init__(self, code: ResponseCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class SendProcessor:
    """Checks a message, appends it, and leaves the answer to group commit.

    Args:
        is_ready: whether sends may be accepted (False during the catch-up of a master, and while stopping).
        acknowledge: gets every stored message; it answers now or when the message is safe.
        on_refusal: called when the store refused a message: its disk may have failed.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        random: Random,
        *,
        is_ready: Callable[[], bool],
        acknowledge: Acknowledge,
        on_refusal: Callable[[], None],
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._random = random
        self._is_ready = is_ready
        self._acknowledge = acknowledge
        self._on_refusal = on_refusal
        self._store_host = (config.listen_host, config.listen_port)
        # Present on every answer to a send, refusals included.
        self._answer_ext = {
            "MSG_REGION": config.region_id,
            "TRACE_ON": "true" if config.trace_on else "false",
        }

    def handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Store one message; the answer comes later unless it is a refusal.

        Raises:
            HeaderError: a header field is missing or malformed.
        """
        try:
            self._store_message(connection, request)
        except SendRefused as refusal:
            ext = dict(self._answer_ext)
            return RemotingCommand.response(request, refusal.code, str(refusal), ext)
        return None

    def _store_message(self, connection: Connection, request: RemotingCommand) -> None:
        header = self._parse(request)
        if not self._is_ready():
            raise SendRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE, "this broker does not accept messages now"
            )
        topic = self._check_topic(header)
        queue_id = self._choose_queue(header, topic)
        self._check_retry(header)
        properties = decode_properties(header.properties or "")
        self._check_supported(header, properties)
        waits = properties.pop(WAIT_PROPERTY, "true") != "false"
        properties[CLUSTER_PROPERTY] = self._config.cluster_name
        result = self._store.put(
            Message(
                topic=header.topic,
                body=request.body,
                properties=properties,
                flag=header.flag,
                sys_flag=header.sys_flag,
                queue_id=queue_id,
                born_timestamp_ms=header.born_timestamp,
                born_host=(connection.remote_host, connection.remote_port),
                store_host=self._store_host,
                reconsume_times=header.reconsume_times,
            )
        )
        if result.status is not PutStatus.PUT_OK:
            self._on_refusal()
            raise SendRefused(PUT_CODES[result.status], result.reason)
        answer = partial(answer_send, connection, request, self._make_ext(result, queue_id))
        self._acknowledge(result.end_offset, answer, waits)

    @staticmethod
    def _parse(request: RemotingCommand) -> SendMessageHeader:
        if request.code == RequestCode.SEND_MESSAGE_V2:
            header = SendMessageHeader.from_ext_v2(request.ext_fields)
        else:
            header = SendMessageHeader.from_ext(request.ext_fields)
        if header.batch:
            raise SendRefused(
                ResponseCode.MESSAGE_ILLEGAL, "batch messages are not supported by this broker"
            )
        return header

    def _check_topic(self, header: SendMessageHeader) -> TopicConfig:
        """Checks 2 to 5 of RocketMQ's AbstractSendMessageProcessor.msgCheck, in its order."""
        name = header.topic
        topic = self._topics.get(name)
        if topic is not None and topic.order and not self._config.broker_permission & PERM_WRITE:
            raise SendRefused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._config.broker_name}] sending message is forbidden",
            )
        if topic is None and (error := topic_name_error(name)) is not None:
            raise SendRefused(ResponseCode.SYSTEM_ERROR, error)
        if name in FORBIDDEN_TOPICS:
            raise SendRefused(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden."
            )
        if topic is None:
            topic = self._topics.create_on_send(
                name, header.default_topic, header.default_topic_queue_nums
            )
        if topic is None:
            raise SendRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!"
            )
        return topic

    def _choose_queue(self, header: SendMessageHeader, topic: TopicConfig) -> int:
        limit = max(topic.read_queue_nums, topic.write_queue_nums)
        if header.queue_id >= limit:
            raise SendRefused(
                ResponseCode.SYSTEM_ERROR,
                f"request queueId[{header.queue_id}] is illegal, topic {topic.topic_name} has {limit} queues",
            )
        if header.queue_id >= 0:
            return header.queue_id
        return int(self._random.random() * topic.write_queue_nums)

    def _check_retry(self, header: SendMessageHeader) -> None:
        """Dead-lettering is not there yet, so a message that has used up its retries cannot be stored anywhere."""
        if not header.topic.startswith(RETRY_PREFIX):
            return
        group_name = header.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find(group_name)
        if group is None:
            raise SendRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {group_name}",
            )
        limit = header.max_reconsume_times
        if header.reconsume_times >= (group.retry_max_times if limit is None else limit):
            raise SendRefused(
                ResponseCode.MESSAGE_ILLEGAL, "dead-lettering is not supported by this broker"
            )

    @staticmethod
    def _check_supported(header: SendMessageHeader, properties: dict[str, str]) -> None:
        """Refuse what would need a rewritten topic: stored as it is, it would be delivered at once."""
        if (
            header.sys_flag & TRANSACTION_TYPE_MASK
            or properties.get(TRANSACTION_PROPERTY) == "true"
        ):
            raise SendRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                "transactional messages are not supported by this broker",
            )
        if properties.get(DELAY_PROPERTY, "0") != "0":
            raise SendRefused(
                ResponseCode.MESSAGE_ILLEGAL, "delayed messages are not supported by this broker"
            )

    def _make_ext(self, result: PutResult, queue_id: int) -> dict[str, str]:
        return {
            "msgId": result.message_id,
            "queueId": str(queue_id),
            "queueOffset": str(result.queue_offset),
            **self._answer_ext,
        }


def answer_send(
    connection: Connection, request: RemotingCommand, ext: dict[str, str], code: ResponseCode
) -> None:
    """Answer a stored message. All four codes 0, 10, 11 and 12 carry the position; none has a remark."""
    if not request.is_oneway:
        connection.send(RemotingCommand.response(request, code, None, ext))
