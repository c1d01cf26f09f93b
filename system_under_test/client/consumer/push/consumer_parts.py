"""Makes the parts of a push consumer from its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from staticfire.system_under_test.client.consumer.consume_figures import ConsumeFigures
from staticfire.system_under_test.client.consumer.consumption import (
    UNLIMITED,
    ConsumerParts,
    SendBack,
)
from staticfire.system_under_test.client.consumer.push.concurrent_consumption import (
    ConcurrentConsumption,
)
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.orderly_consumption import OrderlyConsumption
from staticfire.system_under_test.client.consumer.queue_consumer import QueueConsumer
from staticfire.system_under_test.client.consumer.subscription import Subscription
from staticfire.system_under_test.client.listening import Listener
from staticfire.system_under_test.client.message_properties import retry_topic
from staticfire.system_under_test.client.offsets.local_offsets import LocalOffsets, OnSaved
from staticfire.system_under_test.client.offsets.offset_store import (
    Offsets,
    OffsetStore,
    OnCommitSent,
    OnOffsetRead,
)
from staticfire.system_under_test.client.producer.send_back import OnSentBack
from staticfire.system_under_test.client.producer.send_back import SendBack as SendBackToBroker
from staticfire.system_under_test.client.producer.sender import Sender, SendOptions
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.protocol.bodies import MessageQueue

INNER_GROUP = "CLIENT_INNER_PRODUCER"  # RocketMQ: MixAll.CLIENT_INNER_PRODUCER_GROUP


def offsets_of(
    client: ClientInstance,
    config: ConsumerConfig,
    on_read: OnOffsetRead | None,
    on_sent: OnCommitSent | None,
    on_saved: OnSaved | None,
) -> Offsets:
    """The consumer's store of offsets: on brokers, or on disk for broadcasting. Raises OSError, ValueError."""
    timestamp_ms = config.consume_timestamp_ms
    if config.broadcast:
        assert config.offset_folder is not None, "the configuration has looked at it"
        folder = config.offset_folder
        return LocalOffsets(
            client, config.group, folder, timestamp_ms=timestamp_ms, on_saved=on_saved
        )
    return OffsetStore(
        client, config.group, timestamp_ms=timestamp_ms, on_read=on_read, on_sent=on_sent
    )


def make_parts(
    client: ClientInstance,
    config: ConsumerConfig,
    offsets: Offsets,
    listener: Listener,
    may_consume: Callable[[MessageQueue], bool],
    on_sent_back: OnSentBack | None,
    queues_owned: Callable[[str], int],
) -> dict[str, ConsumerParts]:
    """The shared parts of the queues, by topic; the retry topic comes last. Raises ValueError."""
    limits = config.limits
    own = ConsumerParts(
        client=client,
        group=config.group,
        subscription=Subscription(
            config.topic,
            config.expression,
            version_ms=client.env.clock.wall_ms(),
            expression_type=config.expression_type,
        ),
        offsets=offsets,
        listener=listener,
        consume_from=config.consume_from,
        pull_batch=config.pull_batch,
        consume_batch=config.consume_batch,
        limits=replace(limits, span_max=None) if config.ordered else limits,
        figures=ConsumeFigures(),
        commits_on_pull=not config.broadcast,
        send_back=_send_back(client, config, on_sent_back),
        drops_failed=config.broadcast and not config.ordered,
        calls_max=config.calls_per_queue,
        consume_timeout_s=config.consume_timeout_s,
        is_ordered=config.ordered,
        may_consume=may_consume,
        queues_owned=queues_owned,
        suspend_s=config.suspend_s,
        reconsume_times_max=config.redeliveries_max,
    )
    more = list(config.more_topics)
    if config.has_retry_topic:
        more.append((retry_topic(config.group), "*"))
    parts = {config.topic: own}
    for topic, expression in more:
        subscription = Subscription(topic, expression, version_ms=own.subscription.version_ms)
        parts[topic] = replace(own, subscription=subscription, figures=ConsumeFigures())
    return parts


def listening_consumer(parts: ConsumerParts, queue: MessageQueue) -> QueueConsumer:
    """Make the consumer that passes the messages of a queue to the listener."""
    kind = OrderlyConsumption if parts.is_ordered else ConcurrentConsumption
    return QueueConsumer(queue, parts, lambda puller: kind(puller, parts))


def _send_back(
    client: ClientInstance, config: ConsumerConfig, on_sent_back: OnSentBack | None
) -> SendBack | None:
    limit = config.redeliveries_max
    if not config.sends_back or config.broadcast or limit == UNLIMITED:
        return None
    return SendBackToBroker(
        client,
        config.group,
        Sender(client, SendOptions(group=INNER_GROUP)),
        reconsume_times_max=limit,
        by_copy_alone=config.ordered,
        on_sent=on_sent_back,
    )
