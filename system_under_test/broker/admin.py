"""Administration: topics, groups, tables for slaves, run-time figures (RocketMQ, AdminBrokerProcessor)."""

from __future__ import annotations

from system_under_test.broker.config import BrokerConfig
from system_under_test.broker.offsets import ConsumerOffsets
from system_under_test.broker.subscription_groups import SubscriptionGroups
from system_under_test.broker.topics import Topics, topic_name_error
from system_under_test.protocol import json_dialect
from system_under_test.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from system_under_test.protocol.codes import VERSION, ResponseCode
from system_under_test.protocol.command import RemotingCommand
from system_under_test.protocol.headers import CreateTopicHeader, DeleteTopicHeader
from system_under_test.remoting import Connection
from system_under_test.store.message_store import MessageStore

VERSION_TEXT = "V4_9_8"


class AdminRequests:
    """Codes 17, 21, 28, 43, 200, 201 and 215."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        *,
        started_at_ms: int,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._started_at_ms = started_at_ms

    def create_topic(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Create or change a topic; the name servers hear of it at once."""
        header = CreateTopicHeader.from_ext(request.ext_fields)
        error = self._refusal(header.topic)
        if error is not None:
            return RemotingCommand.response(request, ResponseCode.SYSTEM_ERROR, error)
        known = self._topics.get(header.topic)
        self._topics.put(
            TopicConfig(
                topic_name=header.topic,
                read_queue_nums=header.read_queue_nums,
                write_queue_nums=header.write_queue_nums,
                perm=header.perm,
                topic_filter_type=header.topic_filter_type,
                topic_sys_flag=header.topic_sys_flag or 0,
                order=known is not None and known.order,  # 4.9.8 ignores the header's order
            )
        )
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def delete_topic(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Forget a topic and the offsets of its groups; its records stay in the log."""
        header = DeleteTopicHeader.from_ext(request.ext_fields)
        error = self._refusal(header.topic)
        if error is not None:
            return RemotingCommand.response(request, ResponseCode.SYSTEM_ERROR, error)
        if self._topics.delete(header.topic):
            self._offsets.forget_topic(header.topic)
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def _refusal(self, topic: str) -> str | None:
        if self._config.is_slave:
            return "Can't modify topic in slave broker."
        if self._topics.is_system(topic):
            return f"The topic[{topic}] is conflict with system topic."
        return topic_name_error(topic)

    def all_topics(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return answer_json(request, self._topics.table().to_json())

    def all_offsets(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return answer_json(request, self._offsets.snapshot())

    def all_groups(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return answer_json(request, self._groups.to_json())

    def put_group(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Create or change the settings of a consumer group."""
        if self._config.is_slave:
            return RemotingCommand.response(
                request,
                ResponseCode.SYSTEM_ERROR,
                "Can't modify subscription group in slave broker.",
            )
        document = json_dialect.loads(request.body.decode())
        self._groups.put(SubscriptionGroupConfig.from_json(document))
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def runtime_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """A small part of RocketMQ's table: what is known without statistics."""
        store = self._store
        table = {
            "bootTimestamp": self._started_at_ms,
            "brokerVersionDesc": VERSION_TEXT,
            "brokerVersion": VERSION,
            "commitLogMinOffset": store.min_offset,
            "commitLogMaxOffset": store.end_offset,
            "remainHowManyDataToFlush": f"{store.end_offset - store.flushed_offset} B",
            "dispatchBehindBytes": store.end_offset - store.dispatched_offset,
            "startAcceptSendRequestTimeStamp": 0,
        }
        return answer_json(request, {"table": {key: str(value) for key, value in table.items()}})


def answer_json(request: RemotingCommand, document: dict[str, object]) -> RemotingCommand:
    return RemotingCommand.response(
        request, ResponseCode.SUCCESS, body=json_dialect.dumps(document)
    )
