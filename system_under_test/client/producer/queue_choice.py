"""Chooses the queue of the next message (RocketMQ: TopicPublishInfo, MQFaultStrategy)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from staticfire.system_under_test.client.producer.latency_faults import LatencyFaults
from staticfire.system_under_test.protocol.bodies import MessageQueue


class QueueChooser:
    """Round robin over the queues of a topic, skipping brokers to avoid.

    Args:
        is_answering: whether the master of a broker name answers; a silent one is the last resort.
    """

    def __init__(
        self, faults: LatencyFaults, is_answering: Callable[[str], bool], *, start: int
    ) -> None:
        self._faults = faults
        self._is_answering = is_answering
        self._next = start

    def choose(
        self, queues: Sequence[MessageQueue], *, failed_broker: str | None, now_ms: int
    ) -> MessageQueue:
        """The next queue; `queues` is not empty. `failed_broker` is where the last attempt failed."""
        self._next += 1
        start = self._next % len(queues)
        in_turn = (*queues[start:], *queues[:start])
        for queue in in_turn:
            if self.is_good(queue.broker_name, now_ms) and queue.broker_name != failed_broker:
                return queue
        return self._choose_among_bad(in_turn, failed_broker, now_ms)

    def is_good(self, broker_name: str, now_ms: int) -> bool:
        return self._is_answering(broker_name) and self._faults.is_available(broker_name, now_ms)

    def _choose_among_bad(
        self, in_turn: Sequence[MessageQueue], failed_broker: str | None, now_ms: int
    ) -> MessageQueue:
        """If all brokers are to be avoided: one that answers, else one that did not just fail, else any."""
        answering = [queue for queue in in_turn if self._is_answering(queue.broker_name)]
        others = [queue for queue in answering or in_turn if queue.broker_name != failed_broker]
        candidates = others or answering or in_turn
        least_bad = self._faults.pick_one_at_least(now_ms)
        return next((q for q in candidates if q.broker_name == least_bad), candidates[0])
