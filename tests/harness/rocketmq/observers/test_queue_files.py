"""Queue files against the log: planted errors are found, and no others."""

from __future__ import annotations

import struct

import pytest

from staticfire.harness.rocketmq.observers.queue_files import inspect_queues
from staticfire.system_under_test.protocol.message import Message, encode_record

BASE = "/store/consumequeue/orders/1/00000000000000000000"
PREPARED = 0x4


def record(offset: int, physical: int, sys_flag: int = 0) -> bytes:
    message = Message(
        topic="orders",
        body=b"x" * 30,
        properties={},
        queue_id=1,
        queue_offset=offset,
        physical_offset=physical,
        sys_flag=sys_flag,
    )
    return bytes(encode_record(message))


def log(count: int, start: int = 0, sys_flag: int = 0) -> bytes:
    size = len(record(0, 0))
    return b"".join(record(n, start + n * size, sys_flag) for n in range(count))


SIZE = len(record(0, 0))


def entry(number: int, start: int = 0) -> bytes:
    return struct.pack(">qiq", start + number * SIZE, SIZE, 7)


EMPTY = bytes(20)
FILLER = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)


def test_a_dense_queue() -> None:
    seen = inspect_queues({BASE: entry(0) + entry(1) + EMPTY * 3}, log(2), 0)

    assert seen == {
        "entries": 2,
        "rolled_queues": 0,
        "holes": 0,
        "hole_at": [],
        "wrong": 0,
        "wrong_at": [],
        "missing": 0,
    }


def test_a_hole() -> None:
    seen = inspect_queues({BASE: entry(0) + EMPTY + entry(2)}, log(3), 0)

    assert (seen["holes"], seen["hole_at"], seen["missing"]) == (1, [["orders", 1, 1]], 1)


@pytest.mark.parametrize(
    "bad",
    [
        entry(0),  # another offset
        struct.pack(">qiq", SIZE, SIZE - 1, 7),
        struct.pack(">qiq", SIZE + 8, SIZE, 7),
        struct.pack(">qiq", 10**12, SIZE, 7),
    ],
    ids=["another message", "another size", "inside a record", "beyond the log"],
)
def test_an_entry_that_leads_elsewhere(bad: bytes) -> None:
    seen = inspect_queues({BASE: entry(0) + bad}, log(2), 0)

    assert (seen["wrong"], seen["wrong_at"]) == (1, [["orders", 1, 1]])


def test_an_entry_of_another_queue() -> None:
    seen = inspect_queues({BASE.replace("/1/", "/2/"): entry(0)}, log(1), 0)

    assert seen["wrong_at"] == [["orders", 2, 0]]


def test_files_of_a_queue_are_one() -> None:
    second = BASE[:-2] + "40"
    seen = inspect_queues({BASE: entry(0) + entry(1), second: entry(2) + EMPTY}, log(3), 0)

    assert (seen["entries"], seen["holes"], seen["wrong"]) == (3, 0, 0)
    assert seen["rolled_queues"] == 1


def test_fillers_are_no_entries() -> None:
    seen = inspect_queues({BASE: FILLER + entry(1)}, log(2), 0)

    assert (seen["entries"], seen["holes"], seen["wrong"]) == (1, 0, 0)


def test_retention_has_taken_the_front_of_the_log() -> None:
    kept = log(3)[SIZE:]
    seen = inspect_queues({BASE: entry(0) + entry(1) + entry(2)}, kept, SIZE)

    assert (seen["entries"], seen["wrong"], seen["missing"]) == (3, 0, None)


def test_half_messages_are_in_no_queue() -> None:
    seen = inspect_queues({BASE: EMPTY}, log(2, sys_flag=PREPARED), 0)

    assert (seen["entries"], seen["missing"]) == (0, 0)


def test_nothing_at_all() -> None:
    assert inspect_queues({}, b"", 0)["missing"] == 0
