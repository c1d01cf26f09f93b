"""Delivered messages in the history: their fields besides key and offset."""

from __future__ import annotations

import pytest

from staticfire.checkers.model.message_contents import digest_of_properties
from staticfire.harness.clients.contents import (
    NO_HOST,
    NO_MESSAGE_ID,
    contents_of,
    digest_of_reply,
    properties_of_reply,
)
from staticfire.system_under_test.protocol.message import Address, Message, offset_message_id

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


def digest(
    properties: dict[str, str], *, born_host: Address = NO_HOST, store_host: Address = NO_HOST
) -> object:
    message = Message(
        topic="t",
        body=b"p0-0 ",
        properties={"KEYS": "p0-0", **properties},
        born_host=born_host,
        store_host=store_host,
    )
    return contents_of(message)[2]


def test_a_sharding_key_counts_only_if_it_is_not_the_one_of_its_producer() -> None:
    assert digest({"a": "1", "__SHARDINGKEY": "k"}) == digest_of_properties({"a": "1"})
    both = {"a": "1", "__SHARDINGKEY": "k", "SHARDED_BY": "k"}
    assert digest(both) == digest_of_properties({"a": "1"})
    lost = digest_of_properties({"a": "1", "__SHARDINGKEY": ""})
    assert digest({"a": "1", "SHARDED_BY": "k"}) == lost
    other = digest_of_properties({"a": "1", "__SHARDINGKEY": "l"})
    assert digest({**both, "__SHARDINGKEY": "l"}) == other


def test_no_message_is_born_at_the_broker_that_stores_it() -> None:
    broker = "10.0.0.1", 10911
    for client in ("10.0.0.1", 40001), ("10.0.0.2", 10911):
        assert digest({}, born_host=client, store_host=broker) == digest_of_properties({})
    assert digest({}, born_host=broker, store_host=broker) != digest_of_properties({})


def test_the_digest_of_a_reply_is_that_of_what_its_listener_set() -> None:
    were_set = properties_of_reply("p0-0")
    arrived = {**were_set, "CORRELATION_ID": "c", "PUSH_REPLY_TIME": "1", "UNIQ_KEY": "u"}
    assert digest_of_reply(arrived) == digest_of_properties(were_set)
    for name in were_set:
        lacking = {key: value for key, value in arrived.items() if key != name}
        assert digest_of_reply(lacking) != digest_of_properties(were_set)
