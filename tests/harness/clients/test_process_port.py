"""The harness's end of the line protocol: every request ends exactly once; garbage is an error, never a hang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from staticfire.checkers.model.history import Stamp
from staticfire.checkers.op_kinds.harness import CLOCK
from staticfire.harness.clients import lines
from staticfire.harness.clients.client_clock import ClientClock
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.clients.process_port import ClientBroken, ProcessPort
from staticfire.harness.simulation.hosts.world import World

SEND: Request = {"f": "send", "topic": "T", "key": "k", "size": 10}
BATCH: Request = {"f": "send_batch", "topic": "T", "messages": [{"key": "k", "size": 1}]}
PLACE: dict[str, Any] = {"broker": "a", "queue": 0, "queue_offset": 5}
DELIVERY: dict[str, Any] = {"group": "g", "topic": "T", "broker": "a", "queue": 0}


class Client:
    """A process whose pipes are in memory."""

    def __init__(self, clock: ClientClock | None = None, answer_s: float | None = None) -> None:
        self.reader = asyncio.StreamReader()
        self.heard: list[dict[str, Any]] = []
        self.emitted: list[tuple[Any, ...]] = []
        self.port = ProcessPort(
            "producer-1",
            lambda *op: self.emitted.append(op),
            self.reader,
            self._hear,
            {"group": "g"},
            clock,
            answer_s,
        )
        self.reading = asyncio.ensure_future(self.port.run())

    def _hear(self, data: bytes) -> None:
        self.heard += map(json.loads, data.splitlines())

    def say(self, **fields: Any) -> None:
        self.reader.feed_data(json.dumps(fields).encode() + b"\n")

    def answer(self, number: int, type: str = "ok", **value: Any) -> None:
        self.say(id=number, type=type, value=value, error=None)

    def emit(self, f: str, type: str = "ok", **value: Any) -> None:
        self.say(emit=f, type=type, value=value, error=None)

    async def asked(self, *requests: Request) -> list[asyncio.Task[Outcome]]:
        tasks = [asyncio.ensure_future(self.port.request(request)) for request in requests]
        await asyncio.sleep(0)
        return tasks


Story = Callable[[Client], Awaitable[None]]


def play(story: Story, clock: ClientClock | None = None, answer_s: float | None = None) -> Client:
    async def main() -> Client:
        client = Client(clock, answer_s)
        await story(client)
        return client

    return World(1).run(main)


def test_the_first_line_is_the_configuration_and_requests_are_numbered() -> None:
    async def story(client: Client) -> None:
        await client.asked({"f": "open"}, SEND)

    assert play(story).heard == [{"group": "g"}, {"id": 1, "f": "open"}, {"id": 2, **SEND}]


def test_a_client_that_leaves_a_request_without_an_answer_is_broken() -> None:
    broken = "producer-1 does not keep to the line protocol: it has not answered 'send' for 5 s"

    async def story(client: Client) -> None:
        [first, second] = await client.asked(SEND, BATCH)
        await asyncio.sleep(4)
        client.answer(2, messages=[PLACE])
        assert (await second).type == "ok"
        assert await first == Outcome("info", {}, broken)
        with pytest.raises(ClientBroken, match="^" + broken + "$"):
            await client.reading
        assert await client.port.request(SEND) == Outcome("info", {}, broken)

    play(story, answer_s=5)


def test_a_client_that_answers_in_time_may_do_so_for_ever() -> None:
    async def story(client: Client) -> None:
        for number in range(1, 4):
            [sent] = await client.asked(SEND)
            await asyncio.sleep(4)
            client.answer(number, **PLACE)
            assert (await sent).type == "ok"
        await asyncio.sleep(100)
        assert not client.reading.done()

    play(story, answer_s=5)


def test_who_stops_listening_is_not_taken_for_a_client_that_fell_silent() -> None:
    async def story(client: Client) -> None:
        await client.asked(SEND)
        client.reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client.reading

    play(story, answer_s=5)


def test_answers_find_their_requests_in_any_order() -> None:
    async def story(client: Client) -> None:
        first, second = await client.asked(SEND, SEND)
        client.say(id=2, type="fail", value={}, error="refused")
        client.answer(1, **PLACE)
        assert await first == Outcome("ok", PLACE)
        assert await second == Outcome("fail", {}, "refused")

    play(story)


def test_what_a_client_reports_by_itself_comes_in_order() -> None:
    delivery = {**DELIVERY, "messages": [["k", 5, 100, True, 0]]}

    async def story(client: Client) -> None:
        client.emit("open")
        client.emit("consume", "invoke", **delivery)
        client.say(emit="consume", type="info", value=delivery, error="the listener failed")
        client.reader.feed_eof()
        await client.reading

    assert play(story).emitted == [
        ("ok", "open", {}, None, None),
        ("invoke", "consume", delivery, None, None),
        ("info", "consume", delivery, "the listener failed", None),
    ]


def test_what_a_dead_process_did_not_answer_is_unknown() -> None:
    async def story(client: Client) -> None:
        asked = await client.asked(SEND, SEND)
        client.answer(1, **PLACE)  # still in the pipe when it died
        client.reader.feed_data(b'{"id":2,"type":"ok"')
        client.reader.feed_eof()
        await client.reading
        assert [await one for one in asked] == [
            Outcome("ok", PLACE),
            Outcome("info", {}, "producer-1 ended"),
        ]
        assert await client.port.request(SEND) == Outcome("info", {}, "producer-1 ended")

    assert len(play(story).heard) == 3  # nothing is written to the dead


def test_after_it_was_given_up_its_ops_still_count_and_its_answers_do_not() -> None:
    async def story(client: Client) -> None:
        [send] = await client.asked(SEND)
        client.port.abandon("the host is gone")
        client.emit("open")
        client.answer(1, **PLACE)
        client.reader.feed_eof()
        await client.reading
        assert await send == Outcome("info", {}, "the host is gone")

    assert play(story).emitted == [("ok", "open", {}, None, None)]


def test_an_answer_after_the_wait_is_no_garbage() -> None:
    async def story(client: Client) -> None:
        [send] = await client.asked(SEND)
        send.cancel()
        await asyncio.sleep(0)
        client.answer(1, **PLACE)
        client.reader.feed_eof()
        await client.reading

    play(story)


def test_a_process_that_cannot_be_sent_anything_is_gone() -> None:
    def broken(data: bytes) -> None:
        raise BrokenPipeError("Broken pipe")

    async def story(_: Client) -> None:
        port = ProcessPort("producer-2", lambda *op: None, asyncio.StreamReader(), broken, {})
        outcome = await port.request(SEND)
        assert outcome == Outcome("info", {}, "producer-2 cannot be sent anything: Broken pipe")

    play(story)


def test_a_connection_that_breaks_is_an_end() -> None:
    async def story(client: Client) -> None:
        [send] = await client.asked(SEND)
        client.reader.set_exception(ConnectionResetError())
        await client.reading
        assert (await send).type == "info"

    play(story)


GARBAGE: list[tuple[bytes, str]] = [
    (b"terminate called after throwing", "is no JSON"),
    (b"{}", "'{}' has neither 'id' nor 'emit'"),
    (b'{"id":9,"type":"ok","value":{}}', "9 is not the id of a request that waits"),
    (b'{"id":"1","type":"ok","value":{}}', "'id' of an answer is '1'"),
    (b'{"id":1,"type":"ok"}', "an answer lacks 'value'"),
    (b'{"id":1,"type":"yes","value":{}}', "is 'yes'; allowed are invoke, ok, fail, info"),
    (b'{"id":1,"type":"invoke","value":{}}', "allowed are ok, fail, info"),
    (
        b'{"id":1,"type":"fail","value":{},"error":5}',
        "'error' of an answer is 5; expected text or null",
    ),
    (b'{"id":1,"type":"ok","value":{"broker":"a","queue":0}}', "send lacks 'queue_offset'"),
    (b'{"id":2,"type":"ok","value":{"messages":[]}}', "0 places came back for 1 messages"),
    (b'{"id":2,"type":"ok","value":{"messages":[7]}}', "is 7; expected an object"),
    (b'{"emit":"send","type":"ok","value":{}}', "allowed are open, assign, commit, consume"),
    (b'{"emit":"assign","type":"ok","value":{"group":"g"}}', "the value of assign lacks 'topic'"),
    (
        b'{"emit":"commit","type":"ok","value":{"group":"g","topic":"T","offsets":[["a",0]]}}',
        "expected a list of 3",
    ),
    (
        b'{"emit":"consume_many","type":"ok","value":{"group":"g","topic":"T","broker":"a","queue":0,"ranges":[[]]}}',
        "a row of 'ranges' in the value of consume_many is \\[\\]; expected a list of 7",
    ),
    (
        b'{"emit":"assign","type":"ok","value":{"group":"g","topic":"T","queues":[["a","0"]]}}',
        "item 1 of a row of 'queues' in the value of assign is '0'; expected a whole number",
    ),
]


@pytest.mark.parametrize(("line", "complaint"), GARBAGE)
def test_garbage_ends_it(line: bytes, complaint: str) -> None:
    async def story(client: Client) -> None:
        asked = await client.asked(SEND, BATCH, SEND)
        client.reader.feed_data(line + b"\n")
        client.answer(3, **PLACE)
        with pytest.raises(ClientBroken, match=complaint) as caught:
            await client.reading
        assert str(caught.value).startswith("producer-1 does not keep to the line protocol: ")
        assert [(await one).type for one in asked][2] == "info"
        assert {(await one).error for one in asked} == {str(caught.value)}

    play(story)


def test_a_batch_that_is_one_op_says_where_its_messages_are() -> None:
    many: Request = {"f": "send_many", "topic": "T", "key": "p1-0", "count": 2, "size": 64}

    async def story(client: Client) -> None:
        good, bad = await client.asked(many, many)
        reported: dict[str, Any] = {
            "broker": "a",
            "queue": 0,
            "ranges": [["p1-0", 0, 0, 2, 230]],
        }
        client.answer(1, **reported)
        assert await good == Outcome("ok", reported)
        client.answer(2, broker="a", queue=0, ranges=[["p1-0", 0, 0, 2]])
        with pytest.raises(ClientBroken, match=r"a range of send_many is .*; expected a list of"):
            await client.reading
        assert (await bad).type == "info"

    play(story)


def test_a_client_that_sends_by_itself_may_go_on_once_its_op_is_recorded() -> None:
    value: dict[str, Any] = {"topic": "T", "key": "p7-0", "count": 2, "size": 64}
    place: dict[str, Any] = {"broker": "a", "queue": 0, "ranges": [["p7-0", 0, 0, 2, 230]]}

    async def story(client: Client) -> None:
        client.emit("send_many", "invoke", **value)
        client.emit("send_many", **value, **place)
        await asyncio.sleep(1.0)
        assert [op[:2] for op in client.emitted] == [("invoke", "send_many"), ("ok", "send_many")]
        assert client.heard[1:] == [{"id": 1, "f": "go_on", "key": "p7-0"}]
        client.answer(1)
        client.emit("send_many", **value)
        with pytest.raises(ClientBroken, match="the value of a send_many lacks 'broker'"):
            await client.reading

    play(story)


def test_a_line_without_end_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 100)

    async def story(client: Client) -> None:
        client.reader.feed_data(b"x" * 101)
        with pytest.raises(ClientBroken, match="longer than 100 bytes"):
            await client.reading

    play(story)


class RunClock:
    """The clock of a run, which a test sets."""

    now_ns = 0
    late_ns = 0

    def measured(self) -> ClientClock:
        return ClientClock(lambda: self.now_ns, lambda: self.late_ns)


async def taken() -> None:
    """Let the port take what was said."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_the_clock_of_a_client_that_stamps_is_measured_and_its_events_are_stamped() -> None:
    run = RunClock()

    async def story(client: Client) -> None:
        client.say(emit="open", type="ok", value={}, error=None, at_ns=7_000)
        await taken()
        assert client.heard[-1] == {"id": 1, "f": CLOCK}
        run.now_ns = 100
        client.say(id=1, type="ok", value={}, error=None, at_ns=7_050)
        await taken()
        assert client.heard[-1] == {"id": 2, "f": CLOCK}  # the first ones come one after another
        run.now_ns = 31_000_100  # the harness was busy for 31 ms
        client.say(emit="assign", type="ok", value=assigned, error=None, at_ns=7_150)
        await taken()

    assigned = {"group": "g", "topic": "T", "queues": []}
    emitted = play(story, run.measured()).emitted
    assert emitted[0] == ("ok", "open", {}, None, None)
    assert emitted[1] == ("ok", "assign", assigned, None, Stamp(150, 50))


def test_exchanges_go_on_after_the_first_ones() -> None:
    async def story(client: Client) -> None:
        client.say(emit="open", type="ok", value={}, error=None, at_ns=1)
        for number in range(1, 5):
            await taken()
            client.say(id=number, type="ok", value={}, error=None, at_ns=number)
        await taken()
        assert client.heard[-1] == {"id": 4, "f": CLOCK}
        await asyncio.sleep(2.1)
        assert client.heard[-1] == {"id": 5, "f": CLOCK}

    play(story, RunClock().measured())


def test_the_clock_of_a_client_that_does_not_stamp_is_not_asked_for() -> None:
    run = RunClock()
    run.now_ns, run.late_ns = 31_000_000, 30_000_000

    async def story(client: Client) -> None:
        client.emit("open")
        await taken()
        assert client.heard == [{"group": "g"}]

    [opened] = play(story, run.measured()).emitted
    assert opened[-1] == Stamp(16_000_000, 15_000_000)  # while the harness was late in reading


def test_an_answer_is_stamped() -> None:
    run = RunClock()

    async def story(client: Client) -> None:
        client.say(emit="open", type="ok", value={}, error=None, at_ns=500)
        await taken()
        client.say(id=1, type="ok", value={}, error=None, at_ns=500)
        await taken()
        [send] = await client.asked(SEND)
        run.now_ns = 1_000
        number = client.heard[-1]["id"]
        client.say(id=number, type="ok", value=PLACE, error=None, at_ns=900)
        assert (await send).stamp == Stamp(400, 0)

    play(story, run.measured())
