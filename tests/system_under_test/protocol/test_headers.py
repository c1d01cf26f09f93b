"""Custom headers: names on the wire, what is required, what a bad field is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.system_under_test.protocol import headers
from staticfire.system_under_test.protocol.header_fields import Header, HeaderError
from staticfire.system_under_test.protocol.headers import (
    ConsumerGroupHeader,
    ConsumerSendMsgBackHeader,
    CreateTopicHeader,
    GetRouteInfoHeader,
    PullMessageHeader,
    PullMessageResponse,
    QueryConsumerOffsetHeader,
    QueueHeader,
    RegisterBrokerHeader,
    RegisterBrokerResponse,
    SendMessageHeader,
    SendMessageResponse,
    UnregisterClientHeader,
    UpdateConsumerOffsetHeader,
)

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
CLASSES = [value for value in vars(headers).values() if is_dataclass(value)]

SEND_V1 = {
    "producerGroup": "group",
    "topic": "Topic",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "-1",
    "sysFlag": "0",
    "bornTimestamp": "1600000000000",
    "flag": "7",
    "properties": "k\x01v",
    "reconsumeTimes": "2",
    "unitMode": "true",
    "maxReconsumeTimes": "16",
    "batch": "true",
    "bname": "broker-a",
}
SEND_V2 = dict(zip("abcdefghijklmn", SEND_V1.values(), strict=True))


def text_for(hint: str) -> st.SearchStrategy[str]:
    if hint.startswith("Int32"):
        return st.integers(-(2**31), 2**31 - 1).map(str)
    if hint.startswith("Int64"):
        return st.integers(-(2**63), 2**63 - 1).map(str)
    return st.sampled_from(("true", "false")) if hint.startswith("bool") else st.text(max_size=20)


@pytest.mark.slow
@pytest.mark.parametrize("header", CLASSES, ids=lambda header: header.__name__)
@settings(max_examples=20)  # times 28 classes
@given(data=st.data())
def test_every_header_survives_its_ext_fields(header: Any, data: st.DataObject) -> None:
    texts = {
        field.name: data.draw(text_for(str(field.type)), label=field.name)
        for field in fields(header)
    }
    ext = {headers_wire_name(header, name): text for name, text in texts.items()}
    assert header.from_ext(ext).to_ext() == ext


def headers_wire_name(header: Any, name: str) -> str:
    """camelCase, and the names that are not."""
    special = {
        "client_id": "clientID",
        "region": "MSG_REGION",
        "trace_on": "TRACE_ON",
        "unique_key_query": "_UNIQUE_KEY_QUERY",
    }
    words = name.split("_")
    camel = words[0] + "".join(word.capitalize() for word in words[1:])
    return {**special, "body_crc32": "bodyCrc32"}.get(name, camel)


def test_both_forms_of_a_send_are_the_same_header() -> None:
    header = SendMessageHeader.from_ext(SEND_V1)
    assert header == SendMessageHeader.from_ext_v2(SEND_V2)
    assert header.to_ext() == SEND_V1
    assert header.to_ext_v2() == SEND_V2
    assert (header.queue_id, header.born_timestamp, header.batch) == (-1, 1_600_000_000_000, True)


def test_optional_fields_have_javas_defaults_and_none_is_not_written() -> None:
    required = {name: SEND_V2[name] for name in "abcdefgh"}
    header = SendMessageHeader.from_ext_v2(required)
    assert (header.properties, header.reconsume_times, header.max_reconsume_times) == (
        None,
        0,
        None,
    )
    assert (header.unit_mode, header.batch, header.bname) == (False, False, None)
    assert "i" not in header.to_ext_v2()


@pytest.mark.parametrize("missing", list("abcdefgh"))
def test_a_missing_field_is_named(missing: str) -> None:
    ext = {name: text for name, text in SEND_V2.items() if name != missing}
    with pytest.raises(HeaderError, match=f"field {missing} is missing"):
        SendMessageHeader.from_ext_v2(ext)


@pytest.mark.parametrize(
    "text", ["", "x", "1.0", "0x10", "2147483648", "-2147483649", "9" * 6000, "null"]
)
def test_a_number_that_is_none_or_too_large_is_named_with_its_value(text: str) -> None:
    with pytest.raises(HeaderError, match="field queueId is") as caught:
        QueueHeader.from_ext({"topic": "T", "queueId": text})
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_long_has_64_bits(number: int) -> None:
    with pytest.raises(HeaderError, match="commitOffset"):
        UpdateConsumerOffsetHeader.from_ext(
            {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(number)}
        )


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("1", False), ("", False)]
)
def test_only_the_word_true_is_true(text: str, value: bool) -> None:
    header = GetRouteInfoHeader.from_ext({"topic": "T", "acceptStandardJsonOnly": text})
    assert header.accept_standard_json_only is value


def test_fields_that_a_header_does_not_know_are_ignored() -> None:
    header = ConsumerGroupHeader.from_ext({"consumerGroup": "g", "AccessKey": "", "Signature": "s"})
    assert header == ConsumerGroupHeader(consumer_group="g")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked(Header):
    names: str = "a"

    def __post_init__(self) -> None:
        raise ValueError


@dataclass(frozen=True, slots=True, kw_only=True)
class Made(Header):
    names: list[str] = field(default_factory=list)


@pytest.mark.parametrize("header", [Checked, Made])
def test_a_header_that_needs_its_constructor_is_refused(header: type[Header]) -> None:
    with pytest.raises(TypeError, match="allowed: neither"):
        header.from_ext({})


def test_names_that_are_not_camel_case() -> None:
    assert UnregisterClientHeader(client_id="c").to_ext() == {"clientID": "c"}
    response = SendMessageResponse(
        msg_id="i", queue_id=1, queue_offset=2, region="R", trace_on="true"
    )
    assert response.to_ext() == {
        "msgId": "i",
        "queueId": "1",
        "queueOffset": "2",
        "MSG_REGION": "R",
        "TRACE_ON": "true",
    }


def test_a_registration_names_the_checksum_as_java_does() -> None:
    ext = RegisterBrokerHeader(
        broker_name="b",
        broker_addr="10.0.0.1:10911",
        cluster_name="c",
        broker_id=0,
        ha_server_addr="10.0.0.1:10912",
        body_crc32=5,
    ).to_ext()
    assert ext["bodyCrc32"] == "5"
    assert ext["haServerAddr"] == "10.0.0.1:10912"


def test_a_master_gets_no_address() -> None:
    assert RegisterBrokerResponse().to_ext() == {}
    assert RegisterBrokerResponse.from_ext({}) == RegisterBrokerResponse()


# What real clients and brokers sent

NAMES_OF_LETTERS = dict(zip("abcdefghijklmn", SEND_V1, strict=True))
ODD_TEXTS = st.sampled_from(("", "0", "-1", "007", " 5 ", "x", "True", "1", str(2**31), str(2**63)))


@pytest.mark.slow
@given(changes=st.dictionaries(st.sampled_from("abcdefghijklmn"), st.none() | ODD_TEXTS))
def test_both_forms_of_a_send_are_read_alike(changes: dict[str, str | None]) -> None:
    """The short one is read without the loop over the fields."""
    short = {letter: text for letter, text in (SEND_V2 | changes).items() if text is not None}
    long = {NAMES_OF_LETTERS[letter]: text for letter, text in short.items()}
    assert outcome(SendMessageHeader.from_ext_v2, short) == outcome(
        SendMessageHeader.from_ext, long
    )


def outcome(read: Callable[[dict[str, str]], Header], ext: dict[str, str]) -> Header | str:
    """The header, or which field is wrong, by its long name, and how."""
    try:
        return read(ext)
    except HeaderError as error:
        words = str(error).split(" ")
        words[2] = NAMES_OF_LETTERS.get(words[2], words[2])
        return " ".join(words)


REQUESTS: dict[int, type[Header]] = {
    11: PullMessageHeader,
    14: QueryConsumerOffsetHeader,
    15: UpdateConsumerOffsetHeader,
    30: QueueHeader,
    35: UnregisterClientHeader,
    36: ConsumerSendMsgBackHeader,
    38: ConsumerGroupHeader,
    105: GetRouteInfoHeader,
}


def recorded() -> list[dict[str, Any]]:
    lines = [
        line for path in sorted(CAPTURES.glob("*.jsonl")) for line in path.read_text().splitlines()
    ]
    return [event for event in map(json.loads, lines) if "head" in event]


def ext_of(event: dict[str, Any]) -> dict[str, str]:
    """As decode_command gives them."""
    ext = event["head"].get("extFields", {})
    return {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in ext.items()
    }


def test_every_recorded_request_header_is_read() -> None:
    counts = dict.fromkeys((*REQUESTS, 10, 310), 0)
    for event in recorded():
        code, ext = event["head"]["code"], ext_of(event)
        if event["head"]["flag"] & 1 or code not in counts:
            continue
        counts[code] += 1
        if code in REQUESTS:
            REQUESTS[code].from_ext(ext)
        elif code == 10:
            assert SendMessageHeader.from_ext(ext).topic == ext["topic"]
        else:
            assert SendMessageHeader.from_ext_v2(ext).topic == ext["b"]
    assert all(counts.values()), counts


def test_every_recorded_pull_and_send_answer_is_read() -> None:
    pulls = sends = 0
    for event in recorded():
        ext = ext_of(event)
        if event["name"] == "RE:PULL_MESSAGE" and ext:
            pulls += 1
            answer = PullMessageResponse.from_ext(ext)
            assert answer.min_offset <= answer.next_begin_offset <= answer.max_offset
        elif event["name"].startswith("RE:SEND_MESSAGE") and event["head"]["code"] == 0:
            sends += 1
            assert SendMessageResponse.from_ext(ext).to_ext() == ext
    assert (pulls > 50, sends > 15) == (True, True)


def test_topic_creation_takes_what_the_admin_tool_sends() -> None:
    header = CreateTopicHeader.from_ext(
        {
            "topic": "T",
            "defaultTopic": "TBW102",
            "readQueueNums": "8",
            "writeQueueNums": "8",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
    )
    assert (header.read_queue_nums, header.topic_filter_type, header.order) == (
        8,
        "SINGLE_TAG",
        False,
    )
