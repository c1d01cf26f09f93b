"""What trace says of a message, to the letter: tools of RocketMQ read it."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.client.trace.trace_records import published
from staticfire.system_under_test.protocol.message import Message


@pytest.mark.parametrize(
    ("properties", "kind"),
    [({}, 0), ({"TRAN_MSG": "true"}, 1), ({"TRAN_MSG": "false"}, 0), ({"DELAY": "3"}, 3)],
)
def test_a_send(properties: dict[str, str], kind: int) -> None:
    """RocketMQ, TraceDataEncoder: the kind of the message is its ordinal in MessageType."""
    message = Message(
        topic="T", body=b"hello", properties={"TAGS": "a", "KEYS": "k1 k2", **properties}
    )
    record = published(
        message,
        now_ms=1_600_000_000_000,
        region=None,
        group="g",
        message_id="ID",
        store_host="10.0.0.1:10911",
        cost_ms=7,
        offset_message_id="OFFSET-ID",
        succeeded=True,
    )
    assert record.text.replace("\x01", "|") == (
        f"Pub|1600000000000|null|g|T|ID|a|k1 k2|10.0.0.1:10911|5|7|{kind}|OFFSET-ID|true\x02"
    )
    assert record.keys == ("k1", "k2", "ID")
