"""Records the statistics of a pull, and the event of an offset out of range."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.topics import OFFSET_MOVED_TOPIC
from staticfire.system_under_test.broker.sending.internal_copies import InternalCopies
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics
from staticfire.system_under_test.broker.statistics.store_rates import StoreRates
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_queues import OffsetMovedEvent
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.headers import PullMessageHeader
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.store.reading.reading import GetResult


class PullReports:
    """Records every answer to a pull.

    Args:
        is_ready: whether messages can be stored now.
        now_ms: wall clock.
        now_ns: monotonic clock.
    """

    def __init__(
        self,
        config: BrokerConfig,
        statistics: BrokerStatistics,
        rates: StoreRates,
        copies: InternalCopies,
        *,
        is_ready: Callable[[], bool],
        now_ms: Callable[[], int],
        now_ns: Callable[[], int],
    ) -> None:
        self._config = config
        self._statistics = statistics
        self._rates = rates
        self._copies = copies
        self._is_ready = is_ready
        self._now_ms = now_ms
        self._now_ns = now_ns

    def held(self) -> None:
        """Count a pull that has found nothing and waits; its next read counts again, as in RocketMQ."""
        self._statistics.get_misses += 1

    def answered(
        self,
        header: PullMessageHeader,
        result: GetResult,
        code: ResponseCode,
        size_bytes: int,
        began_ns: int,
    ) -> None:
        """Count a pull answered with `size_bytes` of records, whose last read of the queue began at `began_ns`."""
        elapsed_ns = self._now_ns() - began_ns
        self._rates.get_took(elapsed_ns)
        if code == ResponseCode.SUCCESS:
            self._statistics.get(
                header.consumer_group,
                header.topic,
                header.queue_id,
                len(result.records),
                size_bytes,
                result.next_offset,
                elapsed_ns,
            )
            return
        self._statistics.get_misses += 1
        if code == ResponseCode.PULL_OFFSET_MOVED and self._is_ready():
            self._copies.put(self._event(header, result.next_offset))

    def _event(self, header: PullMessageHeader, corrected: int) -> Message:
        """RocketMQ, PullMessageProcessor.generateOffsetMovedEvent."""
        event = OffsetMovedEvent(
            consumer_group=header.consumer_group,
            message_queue=MessageQueue(header.topic, self._config.broker_name, header.queue_id),
            offset_request=header.queue_offset,
            offset_new=corrected,
        )
        host = (self._config.listen_host, self._config.listen_port)
        return Message(
            topic=OFFSET_MOVED_TOPIC,
            body=event.encode(),
            properties={"TAGS": header.consumer_group, "KEYS": header.consumer_group},
            born_timestamp_ms=self._now_ms(),
            born_host=host,
            store_host=host,
        )
