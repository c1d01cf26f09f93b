"""The scanner takes what adds up and nothing else: each byte of a record can be the one that a power cut changed."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.system_under_test.protocol.message import (
    MAGIC_BLANK,
    Message,
    encode_record,
    patch_record,
    tags_code,
)
from staticfire.system_under_test.store.record_scan import (
    BLANK_HEADER,
    RecordScanner,
    ScanEnd,
    ScannedRecord,
    stored_at_ms,
)

FILE_SIZE = 4096


def make_record(offset: int = 0, **fields: Any) -> bytearray:
    values: dict[str, Any] = {
        "topic": "TopicTest",
        "body": b"body",
        "properties": {"TAGS": "TagA", "KEYS": "k"},
        "queue_id": 3,
        "born_host": ("10.0.0.9", 40_000),
        "store_host": ("10.0.0.1", 10_911),
    }
    record = encode_record(Message(**(values | fields)))
    patch_record(record, queue_offset=5, physical_offset=offset, store_timestamp_ms=77)
    return record


def scan(data: bytes | bytearray, offset: int = 0) -> tuple[list[ScannedRecord], int, ScanEnd]:
    found: list[ScannedRecord] = []
    consumed, end = RecordScanner(FILE_SIZE).scan(data, offset, found.append)
    return found, consumed, end


def test_a_record() -> None:
    record = make_record(1000)
    properties = b"\x02TAGS\x01TagA\x02KEYS\x01k"
    assert scan(record, 1000) == (
        [
            ScannedRecord(
                b"TopicTest", 3, 5, 1000, len(record), tags_code("TagA"), 77, True, properties
            )
        ],
        len(record),
        ScanEnd.MORE,
    )
    assert stored_at_ms(bytes(record)) == 77


@pytest.mark.parametrize("hosts", [{"born_host": ("::1", 1)}, {"store_host": ("::1", 1)}])
def test_ipv6_hosts(hosts: dict[str, Any]) -> None:
    record = make_record(**hosts)
    ((found,), consumed, _) = scan(record)
    assert (found.topic, found.store_timestamp_ms) == (b"TopicTest", 77)
    assert consumed == len(record)
    assert stored_at_ms(bytes(record)) == 77


@pytest.mark.parametrize(
    ("sys_flag", "has_entry"), [(0, True), (0x4, False), (0x8, True), (0xC, False)]
)
def test_prepared_and_rollback_records_have_no_entry(sys_flag: int, has_entry: bool) -> None:
    ((found,), _, _) = scan(make_record(sys_flag=sys_flag))
    assert found.has_entry is has_entry


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({}, 0),
        ({"NOTTAGS": "x"}, 0),
        ({"TAGS": "中文"}, 646394),
        ({"A": "b", "TAGS": "TagB", "Z": "z"}, 2598920),
    ],
)
def test_tags_code(properties: dict[str, str], code: int) -> None:
    ((found,), _, _) = scan(make_record(properties=properties))
    assert found.tags_code == code


@pytest.mark.parametrize(
    ("level", "delay_ms"), [("1", 1_000), ("18", 7_200_000), ("99", 7_200_000)]
)
def test_a_delayed_record_has_its_delivery_time(level: str, delay_ms: int) -> None:
    record = make_record(topic="SCHEDULE_TOPIC_XXXX", properties={"DELAY": level, "TAGS": "TagA"})
    ((found,), _, _) = scan(record)
    assert found.tags_code == 77 + delay_ms


def test_every_prefix_waits_for_more() -> None:
    record = make_record()
    for size in range(len(record)):
        assert scan(record[:size]) == ([], 0, ScanEnd.MORE)


def test_a_sector_of_zeros_anywhere_is_found() -> None:
    """Whatever part of a record reads as zeros, from any byte to its end, the record does not count."""
    record = make_record(body=b"b" * 40)
    for start in range(len(record)):
        damaged = bytes(record[:start]) + bytes(len(record) - start)
        found, consumed, end = scan(damaged)
        assert (found, consumed, end) == ([], 0, ScanEnd.BAD), start


def test_a_changed_byte_of_body_and_lengths_is_found() -> None:
    record = make_record(body=b"b" * 40)
    checked = [*range(4, 12), *range(28, 36), *range(84, 88 + 40 + 1)]
    for position in checked:
        damaged = bytearray(record)
        damaged[position] ^= 0x40
        assert scan(damaged)[0] == [], position


def test_a_record_of_another_offset_does_not_count() -> None:
    assert scan(make_record(0), 165)[2] is ScanEnd.BAD


def test_a_record_must_leave_room_for_the_blank() -> None:
    record = make_record()
    fits = FILE_SIZE - len(record) - 8
    assert len(scan(make_record(fits), fits)[0]) == 1
    assert scan(make_record(fits + 1), fits + 1)[2] is ScanEnd.BAD


def test_a_blank_reaches_to_the_end_of_its_file() -> None:
    record = make_record(FILE_SIZE)
    blank = BLANK_HEADER.pack(100, MAGIC_BLANK) + bytes(92)
    found, consumed, _ = scan(blank + record, FILE_SIZE - 100)
    assert len(found) == 1
    assert consumed == 100 + len(record)
    assert scan(blank + record, FILE_SIZE - 101)[2] is ScanEnd.BAD
    assert scan(blank[:50], FILE_SIZE - 100) == ([], 0, ScanEnd.MORE)
