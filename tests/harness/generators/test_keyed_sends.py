"""Keyed sends: shares of batches and one-way sends, sizes, topics, illegal sends and asynchronous sends."""

from __future__ import annotations

from random import Random

from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.ordered import OrderedSends


def test_shares_of_batches_and_one_way_sends_and_unique_keys() -> None:
    campaign = draw_campaign(1, {"batch_share": 0.3, "one_way_share": 0.2})
    sends = KeyedSends(Random(1), campaign)
    ops = [op for number in range(1000) if (op := sends.next_op(number % 3)) is not None]
    batches = [value["messages"] for f, value in ops if f == "send_batch"]
    one_way = [value for f, value in ops if f == "send" and value.get("one_way")]
    assert 250 < len(batches) < 350
    assert 150 < len(one_way) < 250
    assert {len(messages) for messages in batches} == {2, 3, 4, 5}
    singles = [value["key"] for f, value in ops if f == "send"]
    keys = singles + [message["key"] for messages in batches for message in messages]
    assert len(set(keys)) == len(keys)


def test_a_campaign_without_shares_sends_one_message_at_a_time() -> None:
    sends = KeyedSends(Random(1), draw_campaign(1, {"batch_share": 0.0, "one_way_share": 0.0}))
    ops = [op for _ in range(100) if (op := sends.next_op(0)) is not None]
    assert all(f == "send" and "one_way" not in value for f, value in ops)


def test_a_campaign_says_how_large_batches_are() -> None:
    given = {"batch_share": 1.0, "batch_messages": (40, 50), "illegal_share": 0.0}
    sends = KeyedSends(Random(1), draw_campaign(1, given))
    ops = [op for _ in range(200) if (op := sends.next_op(0)) is not None]
    assert {len(value["messages"]) for _, value in ops} == set(range(40, 51))


def test_a_campaign_may_want_so_many_ops_and_no_more_and_in_several_topics() -> None:
    campaign = draw_campaign(1, {"sends_max": 3, "consumers": 2, "consumer_topics": ("A", "B")})
    sends = KeyedSends(Random(1), campaign)
    ops = [sends.next_op(number) for number in range(5)]
    assert [None if op is None else op[1]["topic"] for op in ops] == ["A", "B", "A", None, None]


def test_some_of_the_messages_sent_alone_are_large_and_nothing_else_changes() -> None:
    given = {"batch_share": 0.3, "payload_bytes": (64, 1000), "log_file_bytes": 65536}
    small, mixed = (
        KeyedSends(Random(1), draw_campaign(1, {**given, "large_share": share}))
        for share in (0.0, 0.2)
    )
    pairs = [(small.next_op(0), mixed.next_op(0)) for _ in range(1000)]
    sizes = [large[1]["size"] for plain, large in pairs if plain and large and plain != large]
    assert 100 < len(sizes) < 180  # a fifth of 700
    assert 4096 <= min(sizes) < max(sizes) <= 12288
    for plain, large in pairs:
        assert plain is not None
        assert large is not None
        assert plain[0] == large[0]
        assert {**plain[1], "size": 0} == {**large[1], "size": 0}


def test_what_must_be_refused_comes_beside_the_load() -> None:
    given = {"one_way_share": 0.0, "large_share": 0.0, "auto_topic": False}
    plain, mixed = (
        KeyedSends(Random(1), draw_campaign(1, {**given, "illegal_share": share}))
        for share in (0.0, 0.2)
    )
    ops = [op for _ in range(1000) if (op := mixed.next_op(0)) is not None]
    illegal = [value for f, value in ops if "illegal" in value]
    assert 150 < len(illegal) < 250
    kinds = {value["illegal"]: value for value in illegal}
    assert kinds.keys() == {"body", "properties", "name of the topic", "unknown topic"}
    assert kinds["body"]["size"] == 4 * 1024 * 1024 + 1
    assert kinds["properties"]["padding"] == 32767
    load = [value for f, value in ops if "illegal" not in value]
    for value in load:
        wanted = plain.next_op(0)
        assert wanted is not None
        assert {**value, "key": "", "messages": []} == {**wanted[1], "key": "", "messages": []}


def test_topics_are_legal_where_brokers_make_them() -> None:
    given = {"illegal_share": 1.0, "broker_properties": (("autoCreateTopicEnable", "true"),)}
    sends = KeyedSends(Random(1), draw_campaign(1, given))
    ops = [op for _ in range(100) if (op := sends.next_op(0)) is not None]
    assert {value["illegal"] for _, value in ops} == {"body", "properties"}


def test_some_sends_that_are_answered_are_asynchronous() -> None:
    given = {"one_way_share": 0.2, "batch_share": 0.2, "illegal_share": 0.0, "async_share": 0.5}
    sends = KeyedSends(Random(1), draw_campaign(1, given))
    values = [op[1] for _ in range(1000) if (op := sends.next_op(0)) is not None]
    assert 250 < sum("async" in value for value in values) < 350
    assert not any("async" in value and "one_way" in value for value in values)
    assert not any("async" in value for value in values if "messages" in value)


def test_no_send_to_the_queue_of_a_key_is_asynchronous() -> None:
    campaign = draw_campaign(1, {"workload": "ordered", "async_share": 1.0, "illegal_share": 0.0})
    sends = OrderedSends(Random(1), campaign)
    values = [op[1] for _ in range(100) if (op := sends.next_op(0)) is not None]
    assert all("sharding_key" in value and "async" not in value for value in values)
