"""A consumer's subscription to a topic (RocketMQ: FilterAPI, SubscriptionData)."""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.system_under_test.client.message_properties import TAGS
from staticfire.system_under_test.protocol.bodies import SubscriptionData
from staticfire.system_under_test.protocol.message import Message, java_string_hash

ALL = "*"
TAG, SQL92 = "TAG", "SQL92"  # RocketMQ: ExpressionType


class Subscription:
    """One topic and an expression: `*`, or tags joined by `||`; or, of type SQL92, a condition on properties.

    Brokers compare only hash codes of tags, so `matching` compares the text again. Only brokers evaluate conditions.
    """

    def __init__(
        self, topic: str, expression: str, *, version_ms: int, expression_type: str = TAG
    ) -> None:
        """Raises ValueError for an unknown expression type."""
        if expression_type not in (TAG, SQL92):
            raise ValueError(f"the expression type is {expression_type!r:.80}; allowed: TAG, SQL92")
        self.topic = topic
        self.expression = expression.strip() or ALL
        self.expression_type = expression_type
        self.version_ms = version_ms
        by_tag = expression_type == TAG and self.expression != ALL
        parts = self.expression.split("||") if by_tag else []
        self.tags = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))

    def matching(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those of the messages whose tag matches."""
        if not self.tags:
            return messages
        return [message for message in messages if message.properties.get(TAGS) in self.tags]

    def data(self) -> SubscriptionData:
        return SubscriptionData(
            topic=self.topic,
            sub_string=self.expression,
            tags_set=list(self.tags),
            code_set=[java_string_hash(tag) for tag in self.tags],
            sub_version=self.version_ms,
            expression_type=self.expression_type,
        )
