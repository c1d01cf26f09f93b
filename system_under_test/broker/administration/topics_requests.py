"""Topics: codes 17, 21, 202, 215, 300, 305 (RocketMQ, AdminBrokerProcessor)."""

from __future__ import annotations

from staticfire.system_under_test.broker.administration.parts import AdminParts
from staticfire.system_under_test.broker.metadata.topics import TableFull, topic_name_error
from staticfire.system_under_test.broker.responses import (
    SLAVE_REFUSAL,
    answer_error,
    answer_ok,
    topic_unknown,
)
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import MessageQueue, TopicConfig
from staticfire.system_under_test.protocol.bodies_clients import GroupList, TopicList
from staticfire.system_under_test.protocol.bodies_queues import TopicOffset, TopicStats
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import CreateTopicHeader, TopicHeader
from staticfire.system_under_test.protocol.json_dialect import BodyError
from staticfire.system_under_test.remoting import Connection, Handler

PERM_MAX = 15
# A request for more queues is surely a mistake; the statistics of so many take 60 ms.
TOPIC_QUEUES_MAX = 4096


class TopicRequests:
    """Handles administrators' requests about topics."""

    def __init__(self, parts: AdminParts) -> None:
        self._parts = parts

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.create,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all,
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.groups,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
        }

    def create(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Create or change a topic, and register it at the name servers at once."""
        header = CreateTopicHeader.from_ext(request.ext_fields)
        error = self._refusal(header.topic) or settings_error(header)
        if error is not None:
            return answer_error(request, error)
        known = self._parts.topics.get(header.topic)
        wanted = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=known is not None and known.order,  # 4.9.8 ignores the header's order
        )
        try:
            self._parts.topics.put(wanted)
        except TableFull as full:
            return answer_error(request, full.text)
        return answer_ok(request)

    def delete(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Delete a topic and the offsets of its groups; its records stay in the log."""
        header = TopicHeader.from_ext(request.ext_fields)
        error = self._refusal(header.topic)
        if error is not None:
            return answer_error(request, error)
        if self._parts.topics.delete(header.topic):
            self._parts.offsets.forget_topic(header.topic)
            self._parts.statistics.forget_topic(header.topic)
        return answer_ok(request)

    def _refusal(self, topic: str) -> str | None:
        if self._parts.config.is_slave:
            return SLAVE_REFUSAL
        if self._parts.topics.is_system(topic):
            return f"The topic[{topic}] is conflict with system topic."
        return topic_name_error(topic)

    def all(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        document = self._parts.topics.table().to_json()
        for add in self._parts.of_topics:
            add(document)
        body = json_dialect.dumps(document)
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body)

    def stats(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Bounds and last store time of every write queue."""
        name = TopicHeader.from_ext(request.ext_fields).topic
        topic = self._parts.topics.get(name)
        if topic is None:
            return topic_unknown(name).answer(request)
        queues = range(topic.write_queue_nums)
        broker_name = self._parts.config.broker_name
        table = {MessageQueue(name, broker_name, q): self._offsets(name, q) for q in queues}
        return answer_ok(request, TopicStats(offset_table=table))

    def _offsets(self, topic: str, queue_id: int) -> TopicOffset:
        store = self._parts.store
        low, high = store.queue_bounds(topic, queue_id)
        last_ms = store.queue_view.store_time_ms(topic, queue_id, high - 1)
        return TopicOffset(min_offset=low, max_offset=high, last_update_timestamp=max(0, last_ms))

    def groups(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Every group that subscribes to a topic now, or has offsets for it."""
        topic = TopicHeader.from_ext(request.ext_fields).topic
        online = self._parts.clients.groups_of(topic)
        known = dict.fromkeys([*online, *self._parts.offsets.groups_of(topic)])
        return answer_ok(request, GroupList(group_list=list(known)))

    def system_topics(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return answer_ok(request, TopicList(topic_list=list(self._parts.topics.system_topics)))


def settings_error(header: CreateTopicHeader) -> str | None:
    """What is wrong with the numbers of a topic, or None. RocketMQ accepts all, and fails when they are used."""
    for name, value, high in (
        ("readQueueNums", header.read_queue_nums, TOPIC_QUEUES_MAX),
        ("writeQueueNums", header.write_queue_nums, TOPIC_QUEUES_MAX),
        ("perm", header.perm, PERM_MAX),
    ):
        if not 0 <= value <= high:
            return f"{name} is {value}, allowed are 0 to {high}"
    try:
        TopicConfig.from_json({"topicName": "t", "topicFilterType": header.topic_filter_type})
    except BodyError as error:
        return str(error)
    return None
