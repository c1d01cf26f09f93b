"""Store hosts in records and in message ids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.faults.proxy.rocketmq.messages import rewrite_message_ids, rewrite_records
from staticfire.system_under_test.protocol.message import (
    Message,
    decode_records,
    encode_record,
    offset_message_id,
)
from tests.faults.proxy.shifted_ports import ShiftedPorts

STORE_HOST = ShiftedPorts().store_host
V4, V6 = "10.0.0.1", "2001:db8::1"


@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("store", [V4, V6])
def test_only_the_store_host_of_each_record_changes(born: str, store: str) -> None:
    messages = [
        Message(
            topic="T",
            body=b"\xda\xa3\x20\xa7" * size,
            born_host=(born, 9),
            store_host=(store, 10911),
        )
        for size in (0, 1, 300)
    ]
    body = b"".join(map(encode_record, messages))
    rewritten = rewrite_records(body, STORE_HOST)
    assert rewritten is not None
    assert decode_records(rewritten) == [
        replace(message, store_host=(store, 20911)) for message in decode_records(body)
    ]


def test_records_of_unknown_brokers_stay() -> None:
    body = bytes(encode_record(Message(topic="T", body=b"x", store_host=(V4, 0))))
    assert rewrite_records(body, STORE_HOST) is None


@pytest.mark.parametrize("cut", range(1, 92))
def test_what_is_not_records_to_its_end_stays(cut: int) -> None:
    record = bytes(encode_record(Message(topic="T", body=b"", store_host=(V4, 10911))))
    assert rewrite_records(record + record[:-cut], STORE_HOST) is None or cut == len(record)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"\0" * 200, b"text that is long enough for a record"]
)
def test_other_bodies_stay(body: bytes) -> None:
    assert rewrite_records(body, STORE_HOST) is None


@pytest.mark.parametrize("size", [0, 8, 71])
def test_a_record_that_ends_before_its_store_host_is_none(size: int) -> None:
    record = bytes(encode_record(Message(topic="T", body=b"", store_host=(V4, 10911))))
    assert rewrite_records(size.to_bytes(4, "big") + record[4:size], STORE_HOST) is None


@pytest.mark.parametrize("host", [V4, V6])
def test_ids_change_one_by_one(host: str) -> None:
    before = ",".join(offset_message_id(host, 10911, offset) for offset in (0, 1 << 40))
    after = ",".join(offset_message_id(host, 20911, offset) for offset in (0, 1 << 40))
    assert rewrite_message_ids(before, STORE_HOST) == after


@pytest.mark.parametrize("text", ["", "0", "Z" * 32, "A" * 31, "é" * 32])
def test_what_is_no_id_stays(text: str) -> None:
    assert rewrite_message_ids(text, STORE_HOST) == text
