"""Expressions of consumer groups that filter by properties (RocketMQ, ConsumerFilterManager).

Durable in config/consumerFilter.json. They come with heartbeats. The broker keeps those of a group without members for
a day, so that the bits in the queue extensions are still valid when the group returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.tag_filter import (
    TAGS_LENGTH_MAX,
    is_tag_expression,
)
from staticfire.system_under_test.filters.bloom import BloomBits, BloomFilter
from staticfire.system_under_test.filters.sql92 import TEXT_LENGTH_MAX, CompiledFilters, SqlFilter
from staticfire.system_under_test.filters.sql92_expressions import FilterSyntaxError
from staticfire.system_under_test.protocol.bodies import ConsumerData, SubscriptionData
from staticfire.system_under_test.store.metadata_file import MetadataFile

SQL92 = "SQL92"
# RocketMQ has no limits. Beyond them the broker drops dead filters, the oldest first.
FILTERS_MAX = 5_000  # topics and groups that have an expression
TEXTS_LENGTH_MAX = 1 << 20  # characters of all expressions; compiled they take about 100 bytes each
DEAD_WHEN_LOADED_MS = 30_000  # RocketMQ: loaded filters count as dead for this long


@dataclass(slots=True, kw_only=True)
class ConsumerFilter:
    """One group's expression for one topic. `dead_ms` is when the group left or unsubscribed, 0 if it is alive.

    `known_from`: dispatch has tested every message at or beyond this physical offset with the expression.
    """

    group: str
    topic: str
    expression: str
    expression_type: str
    version: int  # the client's, of its subscription
    born_ms: int
    dead_ms: int
    bits: BloomBits
    compiled: SqlFilter
    known_from: int

    @property
    def is_dead(self) -> bool:
        return self.dead_ms >= self.born_ms

    def to_json(self) -> dict[str, Any]:
        return {
            "bloomFilterData": {
                "bitNum": self.bits.bit_count,
                "bitPos": list(self.bits.positions),
            },
            "bornTime": self.born_ms,
            "clientVersion": self.version,
            "consumerGroup": self.group,
            "dead": self.is_dead,
            "deadTime": self.dead_ms,
            "expression": self.expression,
            "expressionType": self.expression_type,
            "topic": self.topic,
        }


class ConsumerFilters:
    """The filters of all groups, by topic.

    Args:
        now_ms: the wall clock.
        queued_end: returns the physical offset up to which messages have their queue entries.
    """

    def __init__(
        self, config: BrokerConfig, *, now_ms: Callable[[], int], queued_end: Callable[[], int]
    ) -> None:
        self._config = config
        self._now_ms = now_ms
        self._queued_end = queued_end
        self._by_topic: dict[str, dict[str, ConsumerFilter]] = {}
        self._topics_of: dict[str, dict[str, None]] = {}  # by group; ordered sets
        self._texts_length = 0
        self._count = 0
        self._compiled = CompiledFilters()
        self.bloom = BloomFilter(config.bloom_error_percent, config.bloom_groups)
        self.changed = False  # since they were last saved

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        return self._by_topic.get(topic, {}).get(group)

    def compile(self, expression_type: str | None, expression: str | None) -> SqlFilter:
        """Compile an expression. Raises FilterSyntaxError, also for an unknown type of expression."""
        if expression_type != SQL92:
            raise FilterSyntaxError(
                f"the type of the expression is {expression_type!r:.80}; allowed: 'TAG', 'SQL92'"
            )
        return self._compiled.compile(expression or "")

    # --- heartbeats ------------------------------------------------------------------------------------------------

    def check(self, consumers: Sequence[ConsumerData]) -> None:
        """Raises ValueError if a heartbeat has too long a list of tags, or too much new SQL92 text to compile."""
        subscriptions = [one for consumer in consumers for one in consumer.subscriptions]
        for subscription in subscriptions:
            length = len(subscription.sub_string)
            if length > TAGS_LENGTH_MAX and is_tag_expression(subscription.expression_type):
                raise ValueError(
                    f"the tags of a subscription have {length} characters;"
                    f" allowed: up to {TAGS_LENGTH_MAX}"
                )
        new = {
            subscription.sub_string: len(subscription.sub_string)
            for subscription in subscriptions
            if subscription.expression_type == SQL92
            and subscription.sub_string not in self._compiled
        }
        length = sum(new.values())
        if len(new) > 1 and length > TEXT_LENGTH_MAX:
            raise ValueError(
                f"the heartbeat has {length} characters of new SQL92 expressions;"
                f" allowed: up to {TEXT_LENGTH_MAX}"
            )
        self._check_room(consumers)

    def _check_room(self, consumers: Sequence[ConsumerData]) -> None:
        """Make room for the expressions of a heartbeat. Raises ValueError if there is too little."""
        grown: dict[tuple[str, str], int] = {}
        for consumer in consumers:
            for one in consumer.subscriptions:
                if one.expression_type != SQL92:
                    continue
                known = self.get(one.topic, consumer.group_name)
                if known is None or known.expression != one.sub_string:
                    grown[one.topic, consumer.group_name] = len(one.sub_string)
        if not grown:
            return
        new = sum(self.get(*key) is None for key in grown)
        length = sum(grown.values())
        if not self._has_room(new, length):
            dead = [known for known in self._all() if known.is_dead]
            for known in sorted(dead, key=lambda known: known.dead_ms):
                if (known.topic, known.group) not in grown and not self._has_room(new, length):
                    self._forget(known.topic, known.group)
                    self.changed = True
        if not self._has_room(new, length):
            raise ValueError(
                f"{self._count + new} SQL92 expressions of groups would have"
                f" {self._texts_length + length} characters;"
                f" allowed: up to {FILTERS_MAX} with {TEXTS_LENGTH_MAX}"
            )

    def _has_room(self, new: int, length: int) -> bool:
        return self._count + new <= FILTERS_MAX and self._texts_length + length <= TEXTS_LENGTH_MAX

    def register(self, group: str, subscriptions: Sequence[SubscriptionData]) -> None:
        """Apply the expressions of a heartbeat; filters of topics that it no longer subscribes to become dead."""
        for subscription in subscriptions:
            if not is_tag_expression(subscription.expression_type) and subscription.sub_string:
                self._register_one(group, subscription)
        if group in self._topics_of:
            wanted = {subscription.topic for subscription in subscriptions}
            self._end(group, lambda topic: topic not in wanted)

    def unregister(self, group: str) -> None:
        """Mark all filters of a group as dead: its last member has left."""
        self._end(group, lambda topic: True)

    def _register_one(self, group: str, subscription: SubscriptionData) -> None:
        topic, expression = subscription.topic, subscription.sub_string
        known = self.get(topic, group)
        if known is not None and subscription.sub_version <= known.version:
            if subscription.sub_version == known.version:
                self._revive(known)
            return
        is_same = known is not None and (known.expression, known.expression_type) == (
            expression,
            subscription.expression_type,
        )
        if known is not None and is_same:
            known.version = subscription.sub_version
            self.changed = True
            self._revive(known)
            return
        self._replace(group, subscription)

    def _replace(self, group: str, subscription: SubscriptionData) -> None:
        topic, expression = subscription.topic, subscription.sub_string
        self.changed = True
        try:
            compiled = self.compile(subscription.expression_type, expression)
        except FilterSyntaxError:  # the client's pulls will report it
            self._forget(topic, group)
            return
        self._put(
            ConsumerFilter(
                group=group,
                topic=topic,
                expression=expression,
                expression_type=subscription.expression_type,
                version=subscription.sub_version,
                born_ms=self._now_ms(),
                dead_ms=0,
                bits=self.bloom.bits_of(f"{group}#{topic}"),
                compiled=compiled,
                known_from=self._queued_end(),
            )
        )

    def _put(self, known: ConsumerFilter) -> None:
        self._uncount(known.topic, known.group)
        self._count += 1
        self._texts_length += len(known.expression)
        self._by_topic.setdefault(known.topic, {})[known.group] = known
        self._topics_of.setdefault(known.group, {})[known.topic] = None

    def _revive(self, known: ConsumerFilter) -> None:
        if known.is_dead:
            known.dead_ms = 0
            self.changed = True

    def _end(self, group: str, ends: Callable[[str], bool]) -> None:
        for topic in self._topics_of.get(group, ()):
            known = self._by_topic[topic][group]
            if not known.is_dead and ends(topic):
                known.dead_ms = self._now_ms()
                self.changed = True

    def _uncount(self, topic: str, group: str) -> None:
        known = self.get(topic, group)
        if known is not None:
            self._count -= 1
            self._texts_length -= len(known.expression)

    def _forget(self, topic: str, group: str) -> None:
        self._uncount(topic, group)
        for table, first, second in (
            (self._by_topic, topic, group),
            (self._topics_of, group, topic),
        ):
            inner: dict[str, Any] = table.get(first, {})
            inner.pop(second, None)
            if not inner:
                table.pop(first, None)

    def forget_old(self) -> None:
        """Drop filters that have been dead for longer than filterDataCleanTimeSpan."""
        oldest_ms = self._now_ms() - int(self._config.dead_filter_kept_s * 1000)
        for known in list(self._all()):
            if known.is_dead and known.dead_ms <= oldest_ms:
                self._forget(known.topic, known.group)
                self.changed = True

    def _all(self) -> Iterator[ConsumerFilter]:
        for groups in self._by_topic.values():
            yield from groups.values()

    # --- the extension of the queues -------------------------------------------------------------------------------

    def bit_map(self, topic: str, properties: Callable[[], Mapping[str, str]]) -> bytes:
        """The bits of all groups whose expression matches a message; b"" if no group filters the topic."""
        groups = self._by_topic.get(topic)
        if not groups:
            return b""
        bits = bytearray(self.bloom.bit_count // 8)
        values = properties()
        for known in groups.values():
            if known.compiled.matches(values):
                for at in known.bits.positions:
                    bits[at >> 3] |= 1 << (at & 7)
        return bytes(bits)

    # --- the file --------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The JSON document of consumerFilter.json."""
        return {
            "filterDataByTopic": {
                topic: {
                    "groupFilterData": {name: known.to_json() for name, known in groups.items()},
                    "topic": topic,
                }
                for topic, groups in self._by_topic.items()
            }
        }

    def load(self, document: Mapping[str, Any]) -> None:
        """Load the filters of a document, or none if their bits are of a bloom filter with other options.

        Leaves out expressions that cannot be compiled: pulls are then refused until the group's next heartbeat.

        Raises ValueError for a malformed document.
        """
        try:
            found = [
                self._from_json(known)
                for groups in document.get("filterDataByTopic", {}).values()
                for known in groups["groupFilterData"].values()
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a filter is malformed: {error!r}") from error
        loaded = [known for known in found if known is not None]
        if any(
            known.bits != self.bloom.bits_of(f"{known.group}#{known.topic}") for known in loaded
        ):
            return
        for known in loaded:
            self._put(known)

    def _from_json(self, document: Mapping[str, Any]) -> ConsumerFilter | None:
        bits, born_ms = document["bloomFilterData"], int(document["bornTime"])
        expression = str(document["expression"])
        dead_ms = int(document["deadTime"])
        try:
            compiled = self.compile(str(document["expressionType"]), expression)
        except FilterSyntaxError:
            return None
        return ConsumerFilter(
            group=str(document["consumerGroup"]),
            topic=str(document["topic"]),
            expression=expression,
            expression_type=str(document["expressionType"]),
            version=int(document["clientVersion"]),
            born_ms=born_ms,
            # No client is connected when a broker starts.
            dead_ms=dead_ms or max(born_ms, self._now_ms() - DEAD_WHEN_LOADED_MS),
            bits=BloomBits(
                bit_count=int(bits["bitNum"]), positions=tuple(map(int, bits["bitPos"]))
            ),
            compiled=compiled,
            known_from=self._queued_end(),
        )


class FiltersFile:
    """Keeps the filters in a file, which it writes in another thread."""

    def __init__(self, filters: ConsumerFilters, file: MetadataFile) -> None:
        self._filters = filters
        self._file = file

    def load(self) -> None:
        """Load the file, if it exists. Raises ValueError."""
        document = self._file.load()
        if document is not None:
            self._filters.load(document)

    async def save(self) -> None:
        """Write the filters if they have changed. Raises OSError; then they still count as changed."""
        self._filters.forget_old()
        if not self._filters.changed:
            return
        self._filters.changed = False
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, self._file.save, self._filters.snapshot())
        except OSError:
            self._filters.changed = True
            raise
