"""Filters by tag: parses tag expressions to tags codes (RocketMQ, FilterAPI, DefaultMessageFilter)."""

from __future__ import annotations

from staticfire.system_under_test.protocol.bodies import SubscriptionData
from staticfire.system_under_test.protocol.message import java_string_hash

_TAG_EXPRESSION_TYPES = (None, "", "TAG")
EVERYTHING = "*"
TAGS_LENGTH_MAX = 64 << 10  # characters of `a || b`, which each pull parses again


def is_tag_expression(expression_type: str | None) -> bool:
    return expression_type in _TAG_EXPRESSION_TYPES


def tag_hashes(expression: str) -> frozenset[int]:
    """Java hash codes of the tags in `a || b`."""
    tags = (tag.strip() for tag in expression.split("||"))
    return frozenset(java_string_hash(tag) for tag in tags if tag)


def subscribed_tags(subscription: SubscriptionData) -> frozenset[int] | None:
    """The tags codes of a subscription, None for all."""
    if not subscription.sub_string or subscription.sub_string == EVERYTHING:
        return None
    return tag_hashes(subscription.sub_string)


def sql_refusal(expression_type: str | None) -> str:
    return f"The broker does not support consumer to filter message by {expression_type}"
