"""Reading trace: the formats of RocketMQ 4.9.8, of older and of newer clients, and malformed trace."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.client.trace.trace_reading import TraceEvent, read_trace
from staticfire.system_under_test.client.trace.trace_records import ContextCode, consumed
from staticfire.system_under_test.protocol.message import Message

NOW = 1600000000000
PUB = "Pub|1600000000000|DefaultRegion|g1|TopicTest|MSGID|TagA|k1|10.0.0.1:10911|11|5|0|"
AFTER = "SubAfter|REQID|MSGID|5|true|k1"
END = (
    "EndTransaction|1600000000000|DefaultRegion|g1|TopicTest|MSGID|TagA|k1|10.0.0.1:10911|0|TID|"
    "COMMIT_MESSAGE|false"
)


def read(*records: str) -> tuple[list[TraceEvent], int]:
    return read_trace("".join(f"{record.replace('|', chr(1))}\x02" for record in records))


def only(record: str) -> TraceEvent:
    [event], bad = read(record)
    assert bad == 0
    return event


def test_a_send() -> None:
    event = only(f"{PUB}OFFID|true")
    assert (event.kind, event.status, event.message_id) == ("Pub", "sent", "MSGID")
    assert (event.time_ms, event.region, event.group) == (NOW, "DefaultRegion", "g1")
    assert (event.topic, event.tags, event.keys) == ("TopicTest", "TagA", "k1")
    assert (event.body_length, event.cost_ms, event.message_type) == (11, 5, 0)
    assert (event.offset_message_id, event.client_host) == ("OFFID", None)
    assert event.broker == "10.0.0.1:10911"


def test_sends_of_older_and_newer_clients() -> None:
    old = only(f"{PUB}false")
    assert (old.status, old.offset_message_id) == ("failed", None)
    new = only(f"{PUB}null|true|10.0.0.9")
    assert (new.status, new.offset_message_id, new.client_host) == ("sent", None, "10.0.0.9")


def test_a_consumption() -> None:
    before = only("SubBefore|1600000000000|null|g1|REQID|MSGID|2|")
    assert (before.status, before.group, before.request_id) == ("begun", "g1", "REQID")
    assert (before.region, before.retry_times, before.keys) == (None, 2, None)
    after = only(f"{AFTER}|1|1600000000000|g1")
    assert (after.status, after.cost_ms, after.time_ms, after.group) == ("TIME_OUT", 5, NOW, "g1")
    assert (only(f"{AFTER}|4").status, only(f"{AFTER}|4").group) == ("FAILED", None)
    assert only(AFTER).status == "SUCCESS"
    assert only(AFTER.replace("true", "false")).status == "FAILED"


def test_the_end_of_a_transaction() -> None:
    event = only(END)
    assert (event.status, event.transaction_id) == ("COMMIT_MESSAGE", "TID")
    assert event.from_check is False
    assert only(END.replace("false", "true")).from_check is True


@pytest.mark.parametrize("code", list(ContextCode))
def test_what_we_write_can_be_read(code: ContextCode) -> None:
    record = consumed(
        Message("t", b"", {"KEYS": "a b"}),
        now_ms=NOW,
        group="g",
        request_id="r",
        message_id="m",
        cost_ms=7,
        code=code,
        succeeded=False,
    )
    [event], bad = read_trace(record.text)
    assert (event.status, event.keys, event.cost_ms, bad) == (code.name, "a b", 7, 0)


def test_what_makes_no_sense_is_counted_and_hides_nothing() -> None:
    bad = [
        "Pub",
        "Nonsense|1",
        f"{PUB}x|maybe",
        f"{AFTER}|99",
        "SubBefore|x|r|g|q|m|0|k",
        "Pub|" * 40,
    ]
    events, count = read(*bad, END)
    assert [event.kind for event in events] == ["EndTransaction"]
    assert count == len(bad)
    assert read_trace("") == ([], 0)
