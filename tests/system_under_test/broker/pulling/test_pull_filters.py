"""Pulls of groups that filter by properties: checks, what they get, what wakes them, and the bits in the queues."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.system_under_test.broker.administration.queue_entries import bits_text
from staticfire.system_under_test.broker.metadata.consumer_filters import ConsumerFilter
from staticfire.system_under_test.broker.metadata.topics import make_topic
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.broker.pulling.pull_filters import QueueBits
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.filters.bloom import BloomFilter
from staticfire.system_under_test.filters.sql92 import compile_filter
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from staticfire.system_under_test.protocol.bodies_clients import CheckClientConfig
from staticfire.system_under_test.protocol.bodies_queues import ConsumeQueuePage
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import decode_records
from staticfire.system_under_test.store.record_filter import ExtensionUnit
from tests.system_under_test.broker.bench import Bench, Peer

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


def sql_bench(**options: Any) -> Bench:
    return Bench(property_filter=True, **options)


def beat(
    bench: Bench,
    expression: str,
    *,
    version: int = 10,
    kind: str = "SQL92",
    peer: Peer | None = None,
) -> Peer:
    """A heartbeat of a member of "consumers" that subscribes TopicTest and its retry topic."""
    peer = peer or Peer(7)
    subscriptions = [
        SubscriptionData(
            topic="TopicTest",
            sub_string=expression,
            sub_version=version,
            expression_type=kind,
        ),
        SubscriptionData(topic="%RETRY%consumers", sub_version=version),
    ]
    data = HeartbeatData(
        client_id="c1",
        consumers=[ConsumerData(group_name="consumers", subscriptions=subscriptions)],
    )
    body = json_dialect.dumps(data.to_json())
    bench.ask(bench.client_requests.heartbeat, body=body, peer=peer)
    return peer


def send(bench: Bench, *values: str, queue_id: int = 0) -> None:
    """Messages with a property `a`, which is their body, too."""
    for value in values:
        bench.send(body=value.encode(), properties={"a": value}, queue_id=queue_id)


def bodies(answer: RemotingCommand | None) -> list[bytes]:
    assert answer is not None
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY), answer.remark
    return [message.body for message in decode_records(answer.body)]


def pull_own(bench: Bench, **options: Any) -> RemotingCommand | None:
    """A pull with an expression of its own."""
    return bench.pull(expression_type="SQL92", **options)


def test_expression_in_the_pull() -> None:
    bench = sql_bench()
    send(bench, "1", "5", "x", "7")
    bench.send(body=b"without")
    answer = pull_own(bench, subscription="a > 4")
    assert bodies(answer) == [b"5", b"7"]
    assert answer is not None
    assert answer.ext_fields["nextBeginOffset"] == "5"
    assert bodies(pull_own(bench, subscription="a IS NULL")) == [b"without"]
    nothing = pull_own(bench, subscription="a = 99", offset=1)
    assert nothing is not None
    assert (nothing.code, nothing.ext_fields["nextBeginOffset"]) == (20, "5")


def test_a_pull_gets_no_more_than_it_asks_for() -> None:
    bench = sql_bench()
    send(bench, *"191929")
    answer = pull_own(bench, subscription="a = 9", count=2)
    assert bodies(answer) == [b"9", b"9"]
    assert answer is not None
    assert answer.ext_fields["nextBeginOffset"] == "4"


def test_what_has_been_looked_at_is_passed_over() -> None:
    bench = sql_bench()
    for _ in range(9):
        bench.send(body=b"x" * 1_000_000, properties={"a": "1"})
    answer = pull_own(bench, subscription="a = 2")
    assert answer is not None
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (20, "5")  # 4 MiB at once


@pytest.mark.parametrize(
    ("options", "bench_options", "code"),
    [
        ({"subscription": "a > 1"}, {"property_filter": False}, 1),
        ({"subscription": "a >"}, {}, 23),
        ({"subscription": ""}, {}, 23),
        ({"subscription": "a", "expression_type": "XPATH"}, {}, 1),
        ({"sys_flag": 0}, {}, 24),
    ],
)
def test_refusals(options: dict[str, Any], bench_options: dict[str, Any], code: int) -> None:
    bench = Bench(**{"property_filter": True, **bench_options})
    bench.send()
    answer = bench.pull(**{"expression_type": "SQL92", **options})
    assert answer is not None
    assert answer.code == code
    assert answer.remark


@pytest.mark.parametrize(("mode", "code"), [(Mode.HARDENED, 23), (Mode.FAITHFUL, 0)])
def test_an_expression_that_makes_no_sense_is_refused_or_gets_everything(
    mode: Mode, code: int
) -> None:
    bench = sql_bench(mode=mode)
    send(bench, "1", "2")
    answer = pull_own(bench, subscription="a == 1")
    assert answer is not None
    assert (answer.code, len(decode_records(answer.body))) == (code, 2 if code == 0 else 0)


# Of the heartbeats


def pull_registered(bench: Bench, **options: Any) -> RemotingCommand | None:
    return bench.pull(**{"sys_flag": 0, "sub_version": 10, **options})


def test_expression_of_the_heartbeat() -> None:
    bench = sql_bench()
    send(bench, "1", "5")
    beat(bench, "a = 5")
    assert bodies(pull_registered(bench)) == [b"5"]
    assert bodies(pull_registered(bench, sys_flag=COMMIT)) == [b"5"]


@pytest.mark.parametrize(
    ("expression", "version", "code"),
    [
        ("a ==", 10, ResponseCode.FILTER_DATA_NOT_EXIST),
        ("a = 5", 9, ResponseCode.SUBSCRIPTION_NOT_LATEST),
    ],
)
def test_heartbeats_that_do_not_help(expression: str, version: int, code: int) -> None:
    bench = sql_bench()
    send(bench, "5")
    beat(bench, expression, version=version)
    answer = pull_registered(bench)
    assert answer is not None
    assert answer.code == code


def test_a_filter_older_than_the_subscription() -> None:
    """A heartbeat with a newer expression that makes no sense takes the old one away; then it comes right again."""
    bench = sql_bench()
    send(bench, "5", "6")
    beat(bench, "a = 5")
    known = bench.filters.get("TopicTest", "consumers")
    assert known is not None
    known.version = 9
    answer = pull_registered(bench)
    assert answer is not None
    assert answer.code == ResponseCode.FILTER_DATA_NOT_LATEST
    beat(bench, "a ==", version=11)
    assert bench.filters.get("TopicTest", "consumers") is None
    beat(bench, "a = 6", version=12)
    assert bodies(pull_registered(bench, sub_version=12)) == [b"6"]
    beat(bench, "a = 5", version=11)  # late
    assert bodies(pull_registered(bench, sub_version=12)) == [b"6"]


def test_retries_are_filtered_by_the_expression_of_their_topic_if_that_is_wanted() -> None:
    for filters_retries, expected in ((False, [b"5", b"6"]), (True, [b"5"])):
        bench = sql_bench(filters_retries=filters_retries)
        beat(bench, "a = 5")
        for value in ("5", "6"):
            properties = {"a": value, "RETRY_TOPIC": "TopicTest"}
            bench.send("%RETRY%consumers", body=value.encode(), properties=properties)
        assert bodies(bench.pull("%RETRY%consumers", sys_flag=0)) == expected


def test_check_of_a_client() -> None:
    def check(bench: Bench, expression: str) -> int:
        body = CheckClientConfig(
            client_id="c1",
            group="consumers",
            subscription_data=SubscriptionData(
                topic="TopicTest", sub_string=expression, expression_type="SQL92"
            ),
        ).encode()
        return bench.request(RequestCode.CHECK_CLIENT_CONFIG, body=body).code

    assert check(sql_bench(), "a > 5") == 0
    assert check(sql_bench(), "a > 'x'") == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert check(Bench(), "a > 5") == ResponseCode.SYSTEM_ERROR


# Holding


def test_a_held_pull_is_woken_by_what_its_expression_wants() -> None:
    bench = sql_bench()
    bench.topics.put(make_topic("TopicTest", 4))
    peer = Peer()
    assert pull_own(bench, subscription="a = 5", sys_flag=SUSPEND | SUBSCRIPTION, peer=peer) is None
    send(bench, "1")
    assert peer.sent == []
    send(bench, "5", queue_id=1)
    assert peer.sent == []
    send(bench, "5")
    assert bodies(peer.take()) == [b"5"]


def test_a_held_pull_moves_on_when_nothing_was_for_it() -> None:
    bench = sql_bench()
    bench.topics.put(make_topic("TopicTest", 4))
    peer = Peer()
    pull_own(bench, subscription="a = 5", sys_flag=SUSPEND | SUBSCRIPTION, peer=peer)
    send(bench, "1")
    bench.pull_processor.check_held()
    answer = peer.take()
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (20, "1")


def test_a_held_pull_is_checked_again_when_it_is_woken() -> None:
    bench = sql_bench()
    bench.topics.put(make_topic("TopicTest", 4))
    member = beat(bench, "a = 5")
    peer = Peer()
    assert pull_registered(bench, sys_flag=SUSPEND, peer=peer) is None
    bench.clients.connection_closed(member.connection)
    send(bench, "5")
    assert peer.take().code == ResponseCode.SUBSCRIPTION_NOT_EXIST


# Bits


@pytest.fixture
def bits() -> Bench:
    """A broker whose queues are extended."""
    bench = sql_bench(extends_queues=True, calculates_bits=True)
    bench.store.extend_with(QueueBits(bench.config, bench.filters, bench.store.look_up).of_message)
    return bench


def test_messages_without_the_bits_of_a_group_are_not_read(
    bits: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(bits, "5")  # before the group came: it has to be looked at
    beat(bits, "a = 5")
    send(bits, "1", "5", "2")
    looked_at: list[bytes] = []
    known = bits.filters.get("TopicTest", "consumers")
    assert known is not None
    compiled = known.compiled

    class Watching:
        def matches(self, properties: dict[str, str]) -> bool:
            looked_at.append(properties["a"].encode())
            return compiled.matches(properties)

    monkeypatch.setattr(known, "compiled", Watching())
    assert bodies(pull_registered(bits)) == [b"5", b"5"]
    assert looked_at == [b"5", b"5"]


def test_entries_of_extended_queues_are_shown(bits: Bench) -> None:
    beat(bits, "a = 5")
    send(bits, "5", "6")
    ext = {"topic": "TopicTest", "queueId": "0", "index": "0", "count": "9"}
    answer = bits.request(RequestCode.QUERY_CONSUME_QUEUE, {**ext, "consumerGroup": "consumers"})
    page = ConsumeQueuePage.from_bytes(answer.body)
    assert [entry.eval for entry in page.queue_data] == [True, False]
    first, second = (entry.bit_map or "" for entry in page.queue_data)
    assert [len(line) for line in first.split("\n")] == [48, 64, 0]
    assert (first.count("1"), second.count("1")) == (3, 0)
    reported = json_dialect.loads((page.queue_data[1].extend_data_json or "").encode())
    assert (reported["size"], reported["filterBitMap"]) == (34, "AAAAAAAAAAAAAAAAAAA=")
    assert '\n\t"expression":"a = 5",\n' in (page.filter_data or "")


def test_bits_are_written_as_rocketmq_does() -> None:
    assert bits_text(bytes([1, 0, 0, 0, 0, 0, 0, 0, 0b110])) == "00000110\n" + "0" * 63 + "1\n"


@pytest.mark.parametrize(("mode", "may_match"), [(Mode.HARDENED, True), (Mode.FAITHFUL, False)])
def test_after_the_clock_was_set_back_bits_hide_a_message_or_not(
    mode: Mode, may_match: bool
) -> None:
    """It got its entry before the group came, but its store time is later than the group's."""
    known = ConsumerFilter(
        group="g",
        topic="t",
        expression="a = 1",
        expression_type="SQL92",
        version=1,
        born_ms=1000,
        dead_ms=0,
        bits=BloomFilter(20, 32).bits_of("g#t"),
        compiled=compile_filter("a = 1"),
        known_from=500,
    )
    unit = ExtensionUnit(0, 2000, bytes(14))
    trusts = BROKER_POLICIES[mode].filters.trusts_bits
    assert trusts(known, unit, 400) is not may_match
    assert trusts(known, unit, 500)
