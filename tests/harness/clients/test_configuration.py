"""The first line of a client process: round trips, and one sentence for a malformed configuration."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.harness.clients.configuration import (
    Listening,
    check_admin,
    configuration_of,
    consumer_config,
    credentials_of,
    producer_config,
)
from staticfire.harness.clients.lines import LineError, decode_line, encode_line
from staticfire.system_under_test.acl.signature import Credentials
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.queue_puller import FlowLimits
from staticfire.system_under_test.client.offsets.queue_bounds import ConsumeFrom
from staticfire.system_under_test.client.producer.producer import ProducerConfig

WHO: dict[str, Any] = {"group": "g", "client_id": "127.0.0.1@p", "name_servers": ["10.0.0.1:9876"]}


def through_a_line(fields: dict[str, Any]) -> dict[str, Any]:
    return decode_line(encode_line(fields).removesuffix(b"\n"))


def test_a_producer_gets_what_it_was_to_get() -> None:
    for config in (
        ProducerConfig(group="g", client_id="c", name_servers=("a:1", "b:2"), send_timeout_s=1.5),
        ProducerConfig(
            group="g",
            client_id="c",
            name_servers=("a:1",),
            credentials=Credentials(access_key="rocketmq", secret_key="12345678"),
        ),
    ):
        fields = configuration_of(config, topic="T", node="producer-1")
        assert producer_config(through_a_line(fields)) == config


def test_a_consumer_gets_what_it_was_to_get() -> None:
    config = ConsumerConfig(
        group="g",
        client_id="c",
        name_servers=("a:1",),
        topic="T",
        consume_from=ConsumeFrom.LAST_OFFSET,
        consume_batch=3,
        limits=FlowLimits(count_max=5, topic_size_bytes_max=9),
        more_topics=(("U", "red"),),
        machine_rooms=("r1", "r2"),
        strategy="MACHINE_ROOM",
        ordered=True,
    )
    fields = configuration_of(config, delay_s=0.5, failing_share=0.25, failing_tries=2)
    assert consumer_config(through_a_line(fields)) == (config, Listening(0.5, 0.25, 2))


def test_a_client_that_signs_in_full_stays_one() -> None:
    credentials = Credentials(access_key="accessed", secret_key="secrets", full_signature=True)
    config = ProducerConfig(
        group="g", client_id="c", name_servers=("a:1",), credentials=credentials
    )
    assert producer_config(through_a_line(configuration_of(config))) == config


def test_keys_reach_clients_and_other_accounts_may_have_none() -> None:
    keys: dict[str, Any] = {"access_key": "accessed", "secret_key": "secrets"}
    fields = {**WHO, "credentials": keys, "accounts": {"guest": keys, "unsigned": {}}}
    assert producer_config(fields).credentials == Credentials(**keys)
    assert credentials_of({"credentials": keys}) == Credentials(**keys)
    assert credentials_of({}) is None


def test_a_member_that_pulls_gets_its_share() -> None:
    fields = {**WHO, "topic": "T", "kind": "pull", "share": [1, 3]}
    assert consumer_config(fields)[1] == Listening(kind="pull", share=(1, 3))


def test_little_is_needed() -> None:
    assert producer_config(WHO).retries == 2
    assert consumer_config({**WHO, "topic": "T"})[1] == Listening(0.0, 0.0)
    check_admin({})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"group": 5}, "'group' of the configuration is 5; expected text"),
        ({"name_servers": []}, "is empty; expected host:port"),
        (
            {"name_servers": ["localhost"]},
            "the name server 'localhost' is not of the form host:port",
        ),
        ({"name_servers": ["a:70000"]}, "the name server 'a:70000' is not"),
        ({"name_servers": [5]}, "the name server 5 is not"),
        ({"speed": 5}, "the configuration has 'speed'; known are .*client_id"),
        (
            {"credentials": {"access_key": "a"}},
            "'credentials' of the configuration lacks 'secret_key'",
        ),
        ({"accounts": {"guest": 5}}, "'guest' of 'accounts' is 5; expected an object"),
        (
            {"accounts": {"guest": {"access_key": "a"}}},
            "'guest' of 'accounts' lacks 'secret_key'",
        ),
        ({"retries": 1.5}, "'retries' of the configuration is 1.5; expected a whole number"),
    ],
)
def test_a_bad_producer_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LineError, match=complaint):
        producer_config({**WHO, **change})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, "the configuration lacks 'topic'"),
        (
            {"topic": "T", "consume_from": "now"},
            "allowed are CONSUME_FROM_LAST_OFFSET, CONSUME_FROM",
        ),
        (
            {"topic": "T", "limits": {"bytes": 5}},
            "'limits' of the configuration has 'bytes'; known are count_max",
        ),
        ({"topic": "T", "delay_s": "1"}, "'delay_s' of the configuration is '1'"),
        ({"topic": "T", "forward_to": "U"}, "only one of 'forward_to' and 'process'; give both"),
        ({"topic": "T", "forward_to": "", "process": 1}, "'forward_to' is empty"),
        ({"topic": "T", "forward_to": "T", "process": 1}, "'forward_to' is 'T', which it consumes"),
        ({"topic": "T", "forward_to": "U", "process": -1}, "'process' is -1; allowed are 0 to"),
        ({"topic": "T", "broadcast": True}, "a broadcast consumer needs an offset_folder"),
        ({"topic": "T", "kind": "pop"}, "'kind' is 'pop'; allowed are push, lite-pull, "),
        (
            {"topic": "T", "kind": "pull", "ordered": True},
            "'kind' is 'pull', which cannot have 'ordered'; allowed is 'push'",
        ),
        ({"topic": "T", "share": [2, 2]}, r"'share' is \[2, 2\]; expected the place of the member"),
        ({"topic": "T", "share": [0, True]}, r"'share' is \[0, True\]; expected the place"),
        ({"topic": "T", "more_topics": [["U"]]}, "holds .*'U'.*; expected pairs of topic and tags"),
    ],
)
def test_a_bad_consumer_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LineError, match=complaint):
        consumer_config({**WHO, **change})
