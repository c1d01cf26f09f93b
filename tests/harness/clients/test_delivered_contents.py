"""Delivered messages in the history: their fields besides key and offset."""

from __future__ import annotations

import pytest

from staticfire.harness.clients.contents import NO_MESSAGE_ID, contents_of
from staticfire.system_under_test.protocol.message import Message, offset_message_id

RETRY, DEAD = "%RETRY%g", "%DLQ%g"
AT_500 = offset_message_id("10.0.0.1", 10911, 500)


def origin(**properties: str) -> object:
    return contents_of(Message(topic=RETRY, body=b"p0-0 ", properties=properties))[-1]


def test_a_message_that_is_no_copy_has_no_origin() -> None:
    assert origin() is None
    assert origin(RETRY_TOPIC="t") is None


def test_a_copy_names_its_original_and_the_topic_that_it_was_sent_to() -> None:
    assert origin(ORIGIN_MESSAGE_ID=AT_500, RETRY_TOPIC="t") == 500
    assert origin(ORIGIN_MESSAGE_ID="U", RETRY_TOPIC="t", UNIQ_KEY="U") not in (500, NO_MESSAGE_ID)
    assert origin(ORIGIN_MESSAGE_ID="U", RETRY_TOPIC="t") == NO_MESSAGE_ID


@pytest.mark.parametrize("topic", [{}, {"RETRY_TOPIC": RETRY}, {"RETRY_TOPIC": DEAD}])
def test_a_copy_that_does_not_say_which_topic_it_was_sent_to_names_none(
    topic: dict[str, str],
) -> None:
    """The client passed a message of the retry topic to the listener."""
    assert origin(ORIGIN_MESSAGE_ID=AT_500, **topic) == NO_MESSAGE_ID
