"""The profile of a synthetic history: sizes, skew, fan-out, rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staticfire.checkers.model.columns import Ints

NS_PER_S = 1_000_000_000
BATCH_WAITS_S = 1000.0  # time that a group may wait until a batch is full
SENDS_PER_S = 2000
# Small histories send more slowly to reach it, since a fault excuses anomalies for half a minute.
DURATION_MIN_S = 240


class ShapeError(ValueError):
    """A number of a profile is not valid. One sentence with the value and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadProfile:
    """The options of a synthetic history. An op is a send or one call of a listener."""

    ops: int = 1_000_000
    seed: int = 1
    topics: int = 4
    brokers: int = 2
    queues: int = 48  # of all topics and brokers together
    skew: float = 0.8  # the queue of rank r gets 1 / r^skew of the messages
    groups: int = 2
    fan_out: int = 2  # groups that read each topic
    batch: int = 2  # messages in one call of a listener
    producers: int = 64
    consumers: int = 4  # members of each group
    first_offset: int = 0  # of every queue
    outages: int = 1  # kills of a broker, during which sends fail
    plant: int = 2  # anomalies of each kind
    semantics: int = 1  # 1: also semantic anomalies, as scenarios; 0: only those of chunks
    rows_a_chunk: int = 1_000_000

    def __post_init__(self) -> None:
        """Check the numbers. Raises ShapeError."""
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
        """The mean time between two sends, in ns."""
        return max(NS_PER_S // SENDS_PER_S, DURATION_MIN_S * NS_PER_S // self.sends)

    def queue_weights(self) -> NDArray[np.float64]:
        """Return the share of each queue, shape (queues,). The heavy ones are spread over topics and brokers."""
        weights = 1.0 / np.arange(1, self.queues + 1) ** self.skew
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares

    def topic_of_queue(self) -> Ints:
        return np.arange(self.queues, dtype=np.int64) % self.topics

    def broker_of_queue(self) -> Ints:
        return np.arange(self.queues, dtype=np.int64) // self.topics % self.brokers

    def number_of_queue(self) -> Ints:
        """Return the number of each queue on its broker, shape (queues,)."""
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
