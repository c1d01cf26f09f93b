"""Members that forward: in batches, under keys of their own, one batch after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import pytest

from staticfire.checkers.model.history import OpType
from staticfire.harness.clients import forwarding
from staticfire.harness.clients.forwarding import Forwarder
from staticfire.harness.clients.port import ClientPort
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.client.producer.producer import Producer
from staticfire.system_under_test.client.producer.send_result import SendFailed, SendResult
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import SendStatus
from staticfire.system_under_test.protocol.message import Message, offset_message_id

GIVEN = MessageQueue(topic="narrow", broker_name="b", queue_id=1)
WIDE = MessageQueue(topic="wide", broker_name="a", queue_id=3)


class Sending:
    """A producer whose batches are stored, or end with this status or error."""

    def __init__(self) -> None:
        self.batches: list[list[Message]] = []
        self.status = SendStatus.SEND_OK
        self.error: SendFailed | None = None

    async def send_batch(self, messages: list[Message]) -> list[SendResult]:
        if self.error is not None:
            raise self.error
        self.batches.append(messages)
        return [self._result(number) for number in range(len(messages))]

    def _result(self, number: int) -> SendResult:
        return SendResult(
            status=self.status,
            message_id="",
            offset_message_id=offset_message_id("10.0.0.1", 10911, number * 300),
            queue=WIDE,
            queue_offset=number,
            attempts=1,
        )


class Bench:
    """A forwarder and its port; `said` is what the history has."""

    def __init__(self) -> None:
        self.said: list[tuple[OpType, str, Mapping[str, Any]]] = []
        self.sending = Sending()
        self.reported: list[Mapping[str, Any]] = []  # which copies are whose
        self.port = ClientPort(self._emit)
        producer = cast(Producer, self.sending)
        self.forwarder = Forwarder(producer, self.port, "g", "wide", 100_007)

    def _emit(self, type: OpType, f: str, value: Mapping[str, Any], _error: str | None) -> None:
        if f == "forward":
            assert type == "ok"
            assert self.said[-1][0] == "ok"  # its copies are stored
            self.reported.append(value)
        else:
            self.said.append((type, f, value))

    async def go_on(self) -> None:
        """As serve_consumer does."""
        while True:
            request, _ = await self.port.next()
            assert request["f"] == "go_on"
            self.forwarder.go_on(request["key"])


def play(story: Callable[[Bench], Awaitable[None]], *, goes_on: bool = True) -> Bench:
    bench = Bench()

    async def main() -> None:
        serving = asyncio.ensure_future(bench.go_on()) if goes_on else None
        await story(bench)
        if serving is not None:
            serving.cancel()

    World(1).run(main)
    return bench


def messages(*sizes: int, first: int = 0) -> list[Message]:
    return [
        Message(topic="T", body=b"x" * size, queue_offset=offset)
        for offset, size in enumerate(sizes, first)
    ]


def test_copies_have_keys_of_their_own_and_the_size_of_what_was_given() -> None:
    async def story(bench: Bench) -> None:
        assert await bench.forwarder.forward(messages(90, 90, 60), GIVEN) is None
        assert await bench.forwarder.forward(messages(60), GIVEN) is None

    bench = play(story)
    assert [(type, value["key"], value["count"]) for type, _, value in bench.said] == [
        ("invoke", "p100007-0", 2),
        ("ok", "p100007-0", 2),
        ("invoke", "p100007-2", 1),
        ("ok", "p100007-2", 1),
        ("invoke", "p100007-3", 1),
        ("ok", "p100007-3", 1),
    ]
    assert {f for _, f, _ in bench.said} == {"send_many"}
    assert bench.said[1][2]["ranges"] == [["p100007-0", 0, 0, 2, 300]]
    assert [[len(one.body) for one in batch] for batch in bench.sending.batches] == [
        [90, 90],
        [60],
        [60],
    ]


def test_the_owners_of_copies_are_reported_when_they_are_stored() -> None:
    async def story(bench: Bench) -> None:
        given = [*messages(90, 90, first=5), *messages(90, 60, first=9)]
        assert await bench.forwarder.forward(given, GIVEN) is None

    place = {"group": "g", "topic": "narrow", "broker": "b", "queue": 1}
    assert play(story).reported == [
        {**place, "originals": [[5, 2], [9, 1]], "key": "p100007-0"},
        {**place, "originals": [[10, 1]], "key": "p100007-3"},
    ]


def test_nothing_is_reported_of_copies_that_may_not_be_stored() -> None:
    async def story(bench: Bench) -> None:
        bench.sending.status = SendStatus.FLUSH_DISK_TIMEOUT
        assert await bench.forwarder.forward(messages(60), GIVEN) is not None

    assert play(story).reported == []


def test_batches_stay_below_what_brokers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "BATCH_BYTES_MAX", 2 * (100 + forwarding.RECORD_BYTES))

    async def story(bench: Bench) -> None:
        await bench.forwarder.forward(messages(100, 100, 100, 100, 100, 9000), GIVEN)

    assert [len(batch) for batch in play(story).sending.batches] == [2, 2, 1, 1]


def test_two_calls_of_the_listener_take_turns() -> None:
    async def story(bench: Bench) -> None:
        await asyncio.gather(*(bench.forwarder.forward(messages(60), GIVEN) for _ in range(3)))

    types = [type for type, _, _ in play(story).said]
    assert types == ["invoke", "ok"] * 3


@pytest.mark.parametrize("definite", [True, False])
def test_a_send_that_failed_is_no_success_and_what_follows_has_new_keys(definite: bool) -> None:
    async def story(bench: Bench) -> None:
        bench.sending.error = SendFailed("refused", definite=definite, code=2, attempts=1)
        assert await bench.forwarder.forward(messages(60, 90), GIVEN) is not None
        bench.sending.error = None
        assert await bench.forwarder.forward(messages(60, 90), GIVEN) is None

    ended = [(type, value["key"]) for type, _, value in play(story).said if type != "invoke"]
    first = "fail" if definite else "info"
    assert ended == [(first, "p100007-0"), ("ok", "p100007-1"), ("ok", "p100007-2")]


def test_a_copy_that_is_less_safe_than_asked_is_no_success() -> None:
    async def story(bench: Bench) -> None:
        bench.sending.status = SendStatus.FLUSH_DISK_TIMEOUT
        assert await bench.forwarder.forward(messages(60), GIVEN) == "FLUSH_DISK_TIMEOUT"

    assert [type for type, _, _ in play(story).said] == ["invoke", "info"]


def test_nothing_is_sent_before_the_history_has_its_beginning() -> None:
    async def story(bench: Bench) -> None:
        going = asyncio.ensure_future(bench.forwarder.forward(messages(60), GIVEN))
        await asyncio.sleep(5.0)
        assert [type for type, _, _ in bench.said] == ["invoke"]
        assert bench.sending.batches == []
        bench.forwarder.go_on("p100007-9")  # another one
        await asyncio.sleep(5.0)
        assert bench.sending.batches == []
        bench.forwarder.end()
        assert await going == "the client ends"
        assert await bench.forwarder.forward(messages(60), GIVEN) == "the client ends"

    bench = play(story, goes_on=False)
    assert [type for type, _, _ in bench.said] == ["invoke", "fail", "invoke", "fail"]
    assert bench.sending.batches == []
