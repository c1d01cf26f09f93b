"""Chooses the filter of a pull: the one in the request, or the one from the group's heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.consumer_filters import (
    SQL92,
    ConsumerFilter,
    ConsumerFilters,
)
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.metadata.tag_filter import (
    EVERYTHING,
    TAGS_LENGTH_MAX,
    is_tag_expression,
    sql_refusal,
    subscribed_tags,
    tag_hashes,
)
from staticfire.system_under_test.broker.metadata.topics import RETRY_PREFIX
from staticfire.system_under_test.broker.refusal import PullRefused
from staticfire.system_under_test.filters.sql92 import SqlFilter
from staticfire.system_under_test.filters.sql92_expressions import FilterSyntaxError
from staticfire.system_under_test.protocol.bodies import SubscriptionData
from staticfire.system_under_test.protocol.codes import FAQ, ResponseCode
from staticfire.system_under_test.protocol.headers import PullMessageHeader
from staticfire.system_under_test.protocol.message import RecordError, record_properties
from staticfire.system_under_test.store.record_filter import ExtensionUnit, RecordFilter
from staticfire.system_under_test.store.results import Dispatched

SUBSCRIPTION_FLAG = 4  # RocketMQ, PullSysFlag
RETRY_TOPIC_PROPERTY = "RETRY_TOPIC"


class PullFilter(NamedTuple):
    """The filter of a pull: messages with one of `tags` (None: all), and of these the ones that `by_record` matches."""

    tags: frozenset[int] | None = None
    by_record: RecordFilter | None = None

    def wakes(self, tags_code: int, properties: Callable[[], Mapping[str, str]]) -> bool:
        """Whether a message that has just arrived matches."""
        if self.tags is not None and tags_code not in self.tags:
            return False
        return self.by_record is None or self.by_record.matches(properties())


ALL_MESSAGES = PullFilter()

# (filter, unit, physical offset) -> whether the message was tested with the filter, so that its bits are valid.
TrustsBits = Callable[[ConsumerFilter, ExtensionUnit, int], bool]


def tested_since(known: ConsumerFilter, _unit: ExtensionUnit, physical_offset: int) -> bool:
    """By offset: the message was dispatched after the broker had got the group's expression."""
    return physical_offset >= known.known_from


def born_before(known: ConsumerFilter, unit: ExtensionUnit, _physical_offset: int) -> bool:
    """By time: the message was stored after the expression came. This is wrong once the clock has been set back."""
    return unit.store_timestamp_ms > known.born_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterPolicy:
    """Decisions about filters in which the modes differ.

    Attributes:
        refuses_unparsable: refuse a pull whose own expression cannot be compiled; RocketMQ delivers everything.
        trusts_bits: whether the bits of a message are valid for a filter.
    """

    refuses_unparsable: bool
    trusts_bits: TrustsBits


class ExpressionFilter:
    """Filters by an SQL92 expression. With `known` it is the group's, and the bits may rule a message out."""

    __slots__ = ("_compiled", "_known", "_trusts_bits")

    def __init__(
        self, compiled: SqlFilter, known: ConsumerFilter | None, trusts_bits: TrustsBits
    ) -> None:
        self._compiled = compiled
        self._known = known
        self._trusts_bits = trusts_bits

    def may_match(self, unit: ExtensionUnit | None, physical_offset: int) -> bool:
        known = self._known
        if unit is None or known is None or len(unit.bit_map) * 8 != known.bits.bit_count:
            return True
        return not self._trusts_bits(known, unit, physical_offset) or known.bits.are_in(
            unit.bit_map
        )

    def matches(self, properties: Mapping[str, str]) -> bool:
        return self._compiled.matches(properties)


class RetryFilter:
    """Filters retries by the group's expression for the original topic of each message (filterSupportRetry)."""

    __slots__ = ("_filters", "_group")

    def __init__(self, filters: ConsumerFilters, group: str) -> None:
        self._filters = filters
        self._group = group

    def may_match(self, unit: ExtensionUnit | None, physical_offset: int) -> bool:
        return True

    def matches(self, properties: Mapping[str, str]) -> bool:
        known = self._filters.get(properties.get(RETRY_TOPIC_PROPERTY, ""), self._group)
        return known is None or known.compiled.matches(properties)


class QueueBits:
    """Computes the bits of messages that are being dispatched (RocketMQ, CommitLogDispatcherCalcBitMap)."""

    def __init__(
        self,
        config: BrokerConfig,
        filters: ConsumerFilters,
        look_up: Callable[[int], bytes | None],
    ) -> None:
        self._config = config
        self._filters = filters
        self._look_up = look_up

    def of_message(self, message: Dispatched) -> bytes:
        """The bits of a message; b"" if enableCalcFilterBitMap is off."""
        if not self._config.calculates_bits:
            return b""
        return self._filters.bit_map(
            message.topic, lambda: properties_at(self._look_up, message.physical_offset)
        )


def properties_at(
    look_up: Callable[[int], bytes | None], physical_offset: int
) -> Mapping[str, str]:
    """The properties of the record that starts at `physical_offset`; empty if there is none."""
    record = look_up(physical_offset)
    if record is None:
        return {}
    try:
        return record_properties(record)
    except RecordError:
        return {}


class PullFilters:
    """Finds the filter of a pull, in RocketMQ's order of checks."""

    def __init__(
        self,
        config: BrokerConfig,
        groups: SubscriptionGroups,
        clients: Clients,
        filters: ConsumerFilters,
        policy: FilterPolicy,
    ) -> None:
        self._config = config
        self._groups = groups
        self._clients = clients
        self._filters = filters
        self._policy = policy

    def find(self, header: PullMessageHeader) -> PullFilter:
        """The filter of a pull. Raises PullRefused."""
        if header.sys_flag & SUBSCRIPTION_FLAG:
            found = self._inside(header)
        else:
            found = self._of_subscription(header, self._registered(header))
        if self._config.filters_retries and header.topic.startswith(RETRY_PREFIX):
            group = header.topic.removeprefix(RETRY_PREFIX)
            return found._replace(by_record=RetryFilter(self._filters, group))
        return found

    # Filters inside the request

    def _inside(self, header: PullMessageHeader) -> PullFilter:
        if not is_tag_expression(header.expression_type):
            return self._expression_inside(header)
        expression = (header.subscription or "").strip()
        if expression in ("", EVERYTHING):
            return ALL_MESSAGES
        if len(expression) > TAGS_LENGTH_MAX:
            text = f"it has {len(expression)} characters; allowed: up to {TAGS_LENGTH_MAX}"
            raise _unparsable(text)
        hashes = tag_hashes(expression)
        if not hashes:
            raise _unparsable("there is no tag in it")
        return PullFilter(hashes)

    def _expression_inside(self, header: PullMessageHeader) -> PullFilter:
        if not header.subscription:
            raise _unparsable("it is empty")
        found = ALL_MESSAGES
        try:
            compiled = self._filters.compile(header.expression_type, header.subscription)
            found = PullFilter(None, ExpressionFilter(compiled, None, self._policy.trusts_bits))
        except FilterSyntaxError as error:
            if self._policy.refuses_unparsable and header.expression_type == SQL92:
                raise _unparsable(str(error)) from None
            if self._policy.refuses_unparsable:
                raise _unsupported(header.expression_type) from None
        self._check_enabled(header.expression_type)
        return found

    # Filters from heartbeats

    def _registered(self, header: PullMessageHeader) -> SubscriptionData:
        name = header.consumer_group
        group = self._clients.consumer_group(name)
        if group is None:
            raise PullRefused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}"
            )
        settings = self._groups.find(name)
        if group.is_broadcasting and settings is not None and not settings.consume_broadcast_enable:
            raise PullRefused(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{name}] can not consume by broadcast way",
            )
        subscription = group.subscriptions.get(header.topic)
        if subscription is None:
            raise PullRefused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist{FAQ}",
            )
        if subscription.sub_version < header.sub_version:
            raise PullRefused(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        return subscription

    def _of_subscription(
        self, header: PullMessageHeader, subscription: SubscriptionData
    ) -> PullFilter:
        if is_tag_expression(subscription.expression_type):
            tags = subscribed_tags(subscription)
            return ALL_MESSAGES if tags is None else PullFilter(tags)
        known = self._filters.get(header.topic, header.consumer_group)
        if known is None:
            raise PullRefused(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        if known.version < header.sub_version:
            raise PullRefused(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                "the consumer's consumer filter data not latest",
            )
        self._check_enabled(subscription.expression_type)
        return PullFilter(None, self.of_group(known))

    def of_group(self, known: ConsumerFilter) -> ExpressionFilter:
        """The filter of a group's expression."""
        return ExpressionFilter(known.compiled, known, self._policy.trusts_bits)

    def _check_enabled(self, expression_type: str | None) -> None:
        if not self._config.property_filter:
            raise _unsupported(expression_type)


def _unparsable(why: str) -> PullRefused:
    return PullRefused(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        f"parse the consumer's subscription failed: {why}",
    )


def _unsupported(expression_type: str | None) -> PullRefused:
    return PullRefused(ResponseCode.SYSTEM_ERROR, sql_refusal(expression_type))
