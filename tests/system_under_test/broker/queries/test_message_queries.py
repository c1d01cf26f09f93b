"""Queries by key (12) and by physical offset (33)."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.broker.queries import message_queries
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, decode_records
from tests.system_under_test.broker.bench import Bench, Peer
from tests.system_under_test.store.forged_records import body_with_record

FOREVER_MS = str((1 << 63) - 1)


def put(bench: Bench, number: int, key: str) -> None:
    bench.store.put(
        Message(
            topic="T",
            body=b"%d" % number,
            properties={"UNIQ_KEY": "unique", "KEYS": key},
            store_host=("10.0.0.1", 10_911),
        )
    )


def make_visible(bench: Bench) -> None:
    task = bench.store.begin_flush()
    assert task is not None
    task.run()
    bench.store.finish_flush(task)
    bench.store.dispatch()


@pytest.fixture
def filled(bench: Bench) -> Bench:
    for number in range(70):
        put(bench, number, "k")
    make_visible(bench)
    return bench


def ask(bench: Bench, key: str, count: int, flag: str | None = None) -> list[int]:
    ext = {
        "topic": "T",
        "key": key,
        "maxNum": str(count),
        "beginTimestamp": "0",
        "endTimestamp": FOREVER_MS,
    }
    if flag is not None:
        ext["_UNIQUE_KEY_QUERY"] = flag
    answer = bench.ask(bench.message_queries.query, ext)
    assert int(answer.ext_fields["indexLastUpdateTimestamp"]) > 0
    assert int(answer.ext_fields["indexLastUpdatePhyoffset"]) > 0
    found = [int(message.body) for message in decode_records(answer.body)]
    assert answer.code == (0 if found else 22)
    if not found:
        assert answer.remark == "can not find message, maybe time range not correct"
    return found


@pytest.mark.parametrize(
    ("key", "count", "flag", "first"),
    [
        ("k", 5, None, 65),
        ("k", 5, "false", 65),
        ("k", 1000, None, 6),  # maxMsgsNumBatch
        ("unique", 1000, "true", 38),  # defaultQueryMaxNum, whatever was asked for
        ("unique", 1, "true", 38),
        ("unique", 1, "True", 69),
        ("k", 0, None, 70),
        ("other", 5, None, 70),
    ],
)
def test_the_newest_in_log_order(
    filled: Bench, key: str, count: int, flag: str | None, first: int
) -> None:
    assert ask(filled, key, count, flag) == list(range(first, 70))


@pytest.mark.parametrize("offset", [-1, 1, 1 << 40])
def test_no_record_begins_there(filled: Bench, offset: int) -> None:
    answer = filled.ask(filled.message_queries.view, {"offset": str(offset)})
    assert (answer.code, answer.remark) == (1, f"can not find message by the offset, {offset}")


def test_a_long_search_goes_on_in_later_turns_of_the_loop(
    filled: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_queries, "WORK_A_TURN", 10)
    ext = {"topic": "T", "key": "k", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": "1"}
    request = RemotingCommand.request(12, ext)

    async def turns(peer: Peer, *, closed_after: int) -> int:
        assert filled.message_queries.query(peer.connection, request) is None
        for turn in range(20):
            if turn == closed_after:
                peer.closed = True
            if peer.sent:
                return turn
            await asyncio.sleep(0)
        return 20

    peer = Peer()
    assert asyncio.run(turns(peer, closed_after=20)) == 7  # 70 entries, ten at a time
    assert peer.take().code == 22
    gone = Peer()
    assert asyncio.run(turns(gone, closed_after=3)) == 20
    assert gone.sent == []


def test_a_record_inside_a_body_cannot_be_viewed(filled: Bench) -> None:
    body, offset = body_with_record(filled.store, Message(topic="T", body=b"forged"))
    put_body = Message(topic="T", body=body, store_host=("10.0.0.1", 10_911))
    outer = filled.store.put(put_body).physical_offset
    make_visible(filled)
    answer = filled.ask(filled.message_queries.view, {"offset": str(offset)})
    assert (answer.code, answer.body) == (1, b"")
    viewed = filled.ask(filled.message_queries.view, {"offset": str(outer)})
    assert [message.body for message in decode_records(viewed.body)] == [body]
