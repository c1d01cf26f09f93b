"""What a consumer wants of a topic (RocketMQ: FilterAPI, SubscriptionData)."""

from __future__ import annotations

from collections.abc import Sequence

from system_under_test.protocol.bodies import SubscriptionData
from system_under_test.protocol.message import Message, java_string_hash

ALL = "*"
TAGS = "TAGS"  # RocketMQ: MessageConst.PROPERTY_TAGS


class Subscription:
    """One topic and a tag expression: `*`, or tags joined by `||`.

    Brokers compare only hash codes of tags, so `matching` looks at their text again.
    """

    def __init__(self, topic: str, expression: str, *, version_ms: int) -> None:
        self.topic = topic
        self.expression = expression.strip() or ALL
        self.version_ms = version_ms
        parts = [] if self.expression == ALL else self.expression.split("||")
        self.tags = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))

    def matching(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those of the messages that are wanted."""
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
            expression_type="TAG",
        )
