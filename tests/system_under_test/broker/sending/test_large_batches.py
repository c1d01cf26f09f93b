"""Batches that are stored a part in each of several turns of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from staticfire.system_under_test.broker.sending import batches, large_batches
from staticfire.system_under_test.protocol.batch import BatchEntry, encode_batch
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, decode_record
from staticfire.system_under_test.store.results import PutStatus
from tests.system_under_test.broker.bench import Bench, Peer, send_ext

TEN = [BatchEntry(b"%d" % number, {}) for number in range(10)]
AT_ONCE = 3  # messages of a part


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "PART_WEIGHT", AT_ONCE * batches.MESSAGE_WEIGHT)


class Sender:
    """A client that sends without waiting for answers."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.peer = Peer()

    def batch(self, entries: Sequence[BatchEntry] = TEN, body: bytes | None = None) -> None:
        self._send(320, encode_batch(entries) if body is None else body, 2, m="true")

    def one(self, queue_id: int) -> None:
        self._send(310, b"alone", queue_id)

    def _send(self, code: int, body: bytes, queue_id: int, **ext: Any) -> None:
        request = RemotingCommand.request(
            code, send_ext("TopicTest", queue_id=queue_id, **ext), body
        )
        self.peer.serve(request, self.bench.send_processor.handle)

    def answers(self) -> list[tuple[int, int]]:
        """The code and the queue offset of what is answered by now; -1: none."""
        self.bench.publish()
        sent, self.peer.sent = self.peer.sent, []
        return [(of.code, int(of.ext_fields.get("queueOffset", -1))) for of in sent]


async def turns(count: int = 1) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def scenario(main: Callable[[], Awaitable[None]]) -> None:
    async def wrapped() -> None:
        await main()

    asyncio.run(wrapped())


def messages_of(bench: Bench, ids: str) -> list[Message]:
    records = [bench.store.look_up(int(text[16:], 16)) for text in ids.split(",")]
    return [decode_record(record, check_crc=True) for record in records if record is not None]


def test_each_turn_stores_a_part_and_the_messages_are_neighbours(bench: Bench) -> None:
    sender = Sender(bench)

    async def main() -> None:
        sender.one(2)
        sender.batch()
        ends: list[int] = []
        while not bench.waiting or len(ends) < 8:
            ends.append(bench.store.queue_view.next_offset("TopicTest", 2))
            await turns()
        assert ends == [1, 1, 1, 1, 4, 7, 10, 11]
        bench.publish()

    scenario(main)
    answer = sender.peer.sent[1]
    assert (answer.code, answer.ext_fields["queueOffset"]) == (0, "1")
    messages = messages_of(bench, answer.ext_fields["msgId"])
    assert [message.body for message in messages] == [entry.body for entry in TEN]
    assert [message.queue_offset for message in messages] == list(range(1, 11))


def test_a_small_batch_is_stored_at_once(bench: Bench) -> None:
    sender = Sender(bench)
    sender.batch(TEN[:AT_ONCE])  # without an event loop
    assert sender.answers() == [(0, 0)]


@pytest.mark.parametrize("turn", range(9))
def test_sends_to_its_queue_wait_and_others_do_not(bench: Bench, turn: int) -> None:
    large, other = Sender(bench), Sender(bench)

    async def main() -> None:
        large.batch()
        await turns(turn)
        other.one(3)
        assert other.answers() == [(0, 0)]
        other.one(2)
        await turns(20)
        [(code, offset)] = other.answers()
        assert (code, offset) == (0, 10 if turn >= 3 else 0)  # before, it was not yet stored
        assert large.answers() == [(0, 0 if turn >= 3 else 1)]
        assert bench.store.held_queue is None

    scenario(main)
    bodies = [message.body for message in bench.stored("TopicTest", 2)]
    batch = [entry.body for entry in TEN]
    assert bodies in ([b"alone", *batch], [*batch, b"alone"])


def test_sends_that_waited_share_the_turns_with_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_batches, "RELEASED_AT_ONCE", 4)
    large, other = Sender(bench), Sender(bench)

    async def main() -> None:
        large.batch()
        while bench.store.held_queue is None:
            await turns()
        for _ in range(10):
            other.one(2)
        large.batch()  # its turn comes after them
        ends: list[int] = []
        while len(ends) < 20:
            ends.append(bench.store.queue_view.next_offset("TopicTest", 2))
            await turns()
        assert sorted(set(ends)) == [0, 3, 6, 9, 10, 14, 18, 20, 23, 26, 29, 30]
        assert other.answers() == [(0, offset) for offset in range(10, 20)]

    scenario(main)


def test_the_brokers_own_copies_are_refused_meanwhile(bench: Bench) -> None:
    async def main() -> None:
        Sender(bench).batch()
        await turns(5)
        assert bench.store.held_queue == ("TopicTest", 2)
        copy = Message(topic="TopicTest", body=b"late", queue_id=2)
        assert bench.copies.put(copy).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert bench.copies.put(Message("TopicTest", b"x")).status is PutStatus.PUT_OK
        await turns(20)
        assert bench.copies.put(copy).queue_offset == 10

    scenario(main)


LONG = BatchEntry(b"x", {"k": "v" * 32_700, "more": "v" * 50})


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (encode_batch(TEN) + b"12345", "a batch ends with 5 bytes"),
        (encode_batch([*TEN, LONG]), "properties are 32"),
    ],
)
def test_a_batch_that_makes_no_sense_at_its_end_is_refused_as_a_whole(
    bench: Bench, body: bytes, remark: str
) -> None:
    sender = Sender(bench)

    async def main() -> None:
        sender.batch(body=body)
        await turns(20)

    scenario(main)
    [answer] = sender.peer.sent
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert remark in (answer.remark or "")
    assert bench.store.end_offset == 0
    assert bench.store.held_queue is None


@pytest.mark.parametrize(
    ("turn", "code", "stored"),
    [
        (2, ResponseCode.SERVICE_NOT_AVAILABLE, 0),
        (5, ResponseCode.SYSTEM_ERROR, 6),  # so the sender cannot take it for not stored
    ],
)
def test_a_broker_that_stops_accepting_sends_says_whether_a_part_is_stored(
    bench: Bench, turn: int, code: ResponseCode, stored: int
) -> None:
    sender, other = Sender(bench), Sender(bench)

    async def main() -> None:
        sender.batch()
        await turns(turn)
        bench.is_ready = False
        await turns(20)
        bench.is_ready = True
        other.one(2)

    scenario(main)
    assert [answer.code for answer in sender.peer.sent] == [code]
    assert other.answers() == [(0, stored)]


def test_large_batches_come_one_after_the_other_and_are_bounded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_batches, "WAITING_SIZE_MAX", 3_500)
    senders = [Sender(bench) for _ in range(3)]

    async def main() -> None:
        for sender in senders:
            sender.batch()
        await turns(40)

    scenario(main)
    bench.publish()
    assert [sender.peer.take().code for sender in senders] == [0, 0, ResponseCode.SYSTEM_BUSY]
    batch = [entry.body for entry in TEN]
    assert [message.body for message in bench.stored("TopicTest", 2)] == [*batch, *batch]


def test_a_large_batch_waits_for_another_one_of_its_queue(bench: Bench) -> None:
    first, second = Sender(bench), Sender(bench)
    failures: list[dict[str, object]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        first.batch()
        await turns(5)
        second.batch()
        await turns(40)

    scenario(main)
    bench.publish()
    answers = [sender.peer.take() for sender in (first, second)]
    assert [answer.ext_fields["queueOffset"] for answer in answers] == ["0", "10"]
    assert failures == []


def test_sends_that_wait_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_batches, "WAITING_SIZE_MAX", 3_500)
    other = Sender(bench)

    async def main() -> None:
        Sender(bench).batch()
        await turns(5)
        for _ in range(3):
            other.one(2)
        await turns(20)

    scenario(main)
    assert other.answers() == [(ResponseCode.SYSTEM_BUSY, -1), (0, 10), (0, 11)]


def test_properties_and_keys_make_parts_smaller() -> None:
    entries = [BatchEntry(b"", {"KEYS": "a b c"})] * 4  # 8, 1 and 2 times 2
    batch = Message(topic="t", body=encode_batch(entries))
    assert [len(part) for part in batches.parts_of(batch)] == [2, 2]
