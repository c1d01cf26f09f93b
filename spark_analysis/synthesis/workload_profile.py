"""The profile of a synthetic history: sizes, skew, fan-out, rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staticfire.checkers.model.columns import Ints

NS_PER_S = 1_000_000_000
BATCH_WAITS_S = 1000.0  # how long a group of a synthetic history may wait until a batch is full
SENDS_PER_S = 2000
# shorter histories are slower: a fault excuses what happens within half a minute
DURATION_MIN_S = 240


class ShapeError(ValueError):
    """One sentence: which number is wrong, and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadProfile:
    """The options of a synthetic history. An op is a send or one call of a listener."""

    ops: int = 1_000_000
    seed: int = 1
    topics: int = 4
    brokers: int = 2
    queues: int = 48  # in all
    skew: float = 0.8  # the queue of rank r gets 1 / r^skew of the messages
    groups: int = 2
    fan_out: int = 2  # groups that read each topic
    batch: int = 2  # messages a listener is given at a time
    producers: int = 64
    consumers: int = 4  # of each group
    first_offset: int = 0  # of every queue
    outages: int = 1  # a broker is killed, and sends fail for a while
    plant: int = 2  # anomalies of each kind
    semantics: int = 1  # 1: also those that are about more than sends, deliveries and commits
    rows_a_chunk: int = 1_000_000

    def __post_init__(self) -> None:
        """Raises ShapeError."""
        for name, low, high in LIMITS:
            value = getattr(self, name)
            if not low <= value <= high:
                raise ShapeError(f"{name} is {value}; allowed are {low} to {high}")
        if self.fan_out > self.groups:
            raise ShapeError(f"fan_out is {self.fan_out}; there are only {self.groups} groups")
        if self.queues < self.topics * self.brokers:
            least = self.topics * self.brokers
            raise ShapeError(f"queues is {self.queues}; each topic has one on each broker: {least}")

    @property
    def sends(self) -> int:
        return max(1, round(self.ops / (1 + self.fan_out / self.batch)))

    @property
    def sends_a_chunk(self) -> int:
        return max(64, self.rows_a_chunk // (1 + self.fan_out))

    @property
    def chunks(self) -> int:
        return -(-self.sends // self.sends_a_chunk)

    @property
    def spacing_ns(self) -> int:
        """Between two sends, on average."""
        return max(NS_PER_S // SENDS_PER_S, DURATION_MIN_S * NS_PER_S // self.sends)

    def queue_weights(self) -> NDArray[np.float64]:
        """Share of each queue, shape (queues,). The heavy ones are spread over topics and brokers."""
        weights = 1.0 / np.arange(1, self.queues + 1) ** self.skew
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares

    def topic_of_queue(self) -> Ints:
        return np.arange(self.queues, dtype=np.int64) % self.topics

    def broker_of_queue(self) -> Ints:
        return np.arange(self.queues, dtype=np.int64) // self.topics % self.brokers

    def number_of_queue(self) -> Ints:
        """The number of each queue on its broker."""
        return np.arange(self.queues, dtype=np.int64) // (self.topics * self.brokers)


LIMITS = (
    ("ops", 1, 10**11),
    ("seed", 0, 2**63 - 1),
    ("topics", 1, 1000),
    ("brokers", 1, 100),
    ("queues", 1, 10_000),
    ("skew", 0, 4),
    ("groups", 1, 1000),
    ("fan_out", 1, 100),
    ("batch", 1, 32),
    ("producers", 8, 100_000),
    ("consumers", 1, 1000),
    ("first_offset", 0, 2**60),
    ("outages", 0, 1000),
    ("plant", 0, 1000),
    ("semantics", 0, 1),
    ("rows_a_chunk", 1000, 50_000_000),
)
