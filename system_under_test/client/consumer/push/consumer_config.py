"""Options of a push consumer."""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.system_under_test.acl.signature import Credentials
from staticfire.system_under_test.client.consumer.consumption import (
    CONSUME_TIMEOUT_S,
    SUSPEND_S,
    UNLIMITED,
)
from staticfire.system_under_test.client.consumer.queue_puller import DEFAULT_LIMITS, FlowLimits
from staticfire.system_under_test.client.consumer.subscription import ALL, TAG
from staticfire.system_under_test.client.offsets.queue_bounds import ConsumeFrom

CONCURRENT_RECONSUME_TIMES_MAX = 16  # RocketMQ: the meaning of -1 in concurrent mode


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """`client_id` is `ip@name` and unique in the cluster. All members of a group need the same topics and expressions.

    `expression` selects messages of `topic`: tags joined by `||`, or with the `expression_type` SQL92 a condition on
    properties that brokers evaluate. `more_topics` are further pairs of topic and tags.

    `consume_from` matters only for queues where the group has no stored offset. Unlike RocketMQ, the default makes a
    new group read everything. `consume_timestamp_ms` is for ConsumeFrom.TIMESTAMP; None: half an hour before the start.

    `consume_batch` is the most messages of one call of the listener, `calls_per_queue` the most concurrent calls for
    one queue.

    `ordered`: the consumer locks queues at their brokers and consumes one message (or batch) after the other; a failed
    message blocks its queue for `suspend_s`. `broadcast`: every member gets all messages, keeps its offsets in
    `offset_folder` on its own disk, and drops failed messages.

    Otherwise a failed message is sent back and comes again later, at most `reconsume_times_max` times (-1: 16 times; in
    order without limit); then it becomes a dead letter. Without `sends_back`, the consumer itself retries it every 5 s
    without limit. A message that the listener has for longer than `consume_timeout_s` is sent back, too.
    """

    group: str
    name_servers: tuple[str, ...]
    client_id: str
    topic: str
    expression: str = ALL
    expression_type: str = TAG
    more_topics: tuple[tuple[str, str], ...] = ()
    consume_from: ConsumeFrom = ConsumeFrom.FIRST_OFFSET
    consume_timestamp_ms: int | None = None
    pull_batch: int = 32  # RocketMQ: pullBatchSize
    consume_batch: int = 32  # RocketMQ: consumeMessageBatchMaxSize (1 there)
    calls_per_queue: int = 1  # RocketMQ: consumeThreadMin, 20 for all queues together
    limits: FlowLimits = DEFAULT_LIMITS
    ordered: bool = False  # RocketMQ: MessageListenerOrderly
    broadcast: bool = False  # RocketMQ: MessageModel.BROADCASTING
    offset_folder: str | None = None  # RocketMQ: rocketmq.client.localOffsetStoreDir
    sends_back: bool = True
    reconsume_times_max: int = UNLIMITED  # RocketMQ: maxReconsumeTimes
    suspend_s: float = SUSPEND_S  # RocketMQ: suspendCurrentQueueTimeMillis
    consume_timeout_s: float = CONSUME_TIMEOUT_S  # RocketMQ: consumeTimeout
    strategy: str = "AVG"  # RocketMQ: allocateMessageQueueStrategy; names as in `allocation`
    machine_rooms: tuple[str, ...] = ()  # for the strategy MACHINE_ROOM
    trace: bool = False  # RocketMQ: enableMsgTrace
    credentials: Credentials | None = None  # RocketMQ: AclClientRPCHook

    def __post_init__(self) -> None:
        """Raises ValueError for options that conflict."""
        if self.broadcast and self.offset_folder is None:
            raise ValueError("a broadcast consumer needs an offset_folder of its own")

    @property
    def has_retry_topic(self) -> bool:
        """Whether failed messages come again from the retry topic of the group."""
        return self.sends_back and not self.broadcast and not self.ordered

    @property
    def redeliveries_max(self) -> int:
        """The effective `reconsume_times_max`; UNLIMITED is possible only in order."""
        if self.reconsume_times_max == UNLIMITED and not self.ordered:
            return CONCURRENT_RECONSUME_TIMES_MAX
        return self.reconsume_times_max

    @property
    def message_model(self) -> str:
        return "BROADCASTING" if self.broadcast else "CLUSTERING"

    def properties(self) -> dict[str, str]:
        """Options as text, for code 307 (RocketMQ: fields of DefaultMQPushConsumer)."""
        return {
            "consumerGroup": self.group,
            "messageModel": self.message_model,
            "consumeFromWhere": self.consume_from.value,
            "pullBatchSize": str(self.pull_batch),
            "consumeMessageBatchMaxSize": str(self.consume_batch),
            "pullThresholdForQueue": str(self.limits.count_max),
            "consumeConcurrentlyMaxSpan": str(self.limits.span_max or 0),
            "maxReconsumeTimes": str(self.reconsume_times_max),
        }
