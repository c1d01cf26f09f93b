"""The client's end of the line protocol: requests in order, an end that is reported, and no repeated lines."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from staticfire.harness.clients.line_port import LinePort, feed_from, read_first_line, write_all
from staticfire.harness.clients.line_requests import CONSUMER, PRODUCER, checker
from staticfire.harness.clients.lines import LineError
from staticfire.harness.clients.port import Outcome, PortClosed
from staticfire.harness.simulation.hosts.world import World

T = TypeVar("T")
SEND = b'{"id":7,"f":"send","topic":"T","key":"k","size":10}\n'


def run(main: Coroutine[Any, Any, T]) -> T:
    return World(1).run(lambda: main)


def test_a_request_comes_without_its_id_and_goes_back_with_it() -> None:
    written: list[bytes] = []

    async def story() -> None:
        port = LinePort(written.append, checker("producer", PRODUCER), lambda: 5)
        port.feed(SEND)
        request, reply = await port.next()
        assert request == {"f": "send", "topic": "T", "key": "k", "size": 10}
        reply(Outcome("fail", {"attempts": 2}, "refused"))

    run(story())
    [line] = written
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "id": 7,
        "type": "fail",
        "value": {"attempts": 2},
        "error": "refused",
        "at_ns": 5,
    }


def test_the_clock_is_answered_at_once_beside_other_requests() -> None:
    written: list[bytes] = []

    async def story() -> None:
        port = LinePort(written.append, checker("producer", PRODUCER), lambda: 5)
        port.feed(SEND + b'{"id":8,"f":"clock"}\n')
        assert (await port.next())[0]["f"] == "send"

    run(story())
    [line] = written
    assert json.loads(line) == {"id": 8, "type": "ok", "value": {}, "error": None, "at_ns": 5}


def test_an_op_is_written_when_emit_returns() -> None:
    written: list[bytes] = []
    port = LinePort(written.append, checker("consumer", CONSUMER), lambda: 5)
    port.emit("invoke", "consume", {"queue": 1}, None)
    fields = {"emit": "consume", "type": "invoke", "value": {"queue": 1}, "error": None, "at_ns": 5}
    assert [json.loads(line) for line in written] == [fields]


def test_requests_before_the_end_are_still_given() -> None:
    async def story() -> None:
        port = LinePort(lambda data: None, checker("producer", PRODUCER))
        port.feed(SEND + b'{"id":8,"f":"op')
        port.end()
        assert (await port.next())[0]["f"] == "send"
        for _ in range(2):
            with pytest.raises(PortClosed):
                await port.next()

    run(story())


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"hello\n", "'hello' is no JSON"),
        (b'{"f":"open"}\n', "a request lacks 'id'"),
        (
            b'{"id":1,"f":"commit"}\n',
            "'commit' is no request; the producer knows open, send",
        ),
        (b'{"id":1,"f":"send","topic":"T","key":"k"}\n', "send lacks 'size'"),
        (b'{"id":1,"f":"send","topic":"T","key":"k","size":1,"queue":0}\n', "only one of"),
        (b'{"id":1,"f":"send_batch","topic":"T","messages":[1]}\n', "is 1; expected an object"),
        (
            b'{"id":1,"f":"send","topic":"T","key":"k","size":1,"delay_level":19}\n',
            "'delay_level' is 19; allowed are 1 to 18",
        ),
        (
            b'{"id":1,"f":"send","topic":"T","key":"k","size":1,"properties":{"a":1}}\n',
            "the property 'a' is 1; expected text",
        ),
        (
            b'{"id":1,"f":"send","topic":"T","key":"k","size":1,"sharding_key":"a","one_way":true}\n',
            "give one of them",
        ),
        (
            b'{"id":1,"f":"send","topic":"T","key":"k","size":1,"async":true,"one_way":true}\n',
            "send has 'async' with 'queue', 'sharding_key' or 'one_way'; give one of them",
        ),
        (
            b'{"id":1,"f":"send","topic":"T","key":"k","size":1,"padding":-1}\n',
            "'padding' is -1; allowed are 0 to 1048576",
        ),
        (
            b'{"id":1,"f":"send","topic":"T","key":"k","size":1,"account":"guest"}\n',
            "'account' is 'guest'; allowed are plain",
        ),
        (b'{"id":1,"f":"send_batch","topic":"T","messages":[{"key":"k"}]}\n', "lacks 'size'"),
        (
            b'{"id":1,"f":"send_many","topic":"T","key":"p1-0","size":9,"count":0}\n',
            "'count' is 0; allowed are 1 to",
        ),
        (b'{"id":1,"f":"send","topic":"T","key":"k","size":-1}\n', "'size' of send is -1; allowed"),
        (
            b'{"id":1,"f":"send_many","topic":"T","key":"p1-0","size":99999999999,"count":2}\n',
            "'size' of send_many is 99999999999; allowed are 0 to",
        ),
        (
            b'{"id":1,"f":"send_batch","topic":"T","messages":[{"key":"k","size":-1}]}\n',
            "'size' of a message of send_batch is -1",
        ),
        (
            b'{"id":1,"f":"send_many","topic":"T","key":"order-1","size":9,"count":2}\n',
            "'key' of send_many is 'order-1'; allowed is p<process>-<n>",
        ),
    ],
)
def test_a_bad_line_ends_it_after_what_came_before(line: bytes, complaint: str) -> None:
    async def story() -> None:
        port = LinePort(lambda data: None, checker("producer", PRODUCER))
        port.feed(SEND + line + SEND)
        assert (await port.next())[0]["f"] == "send"
        with pytest.raises(LineError, match=complaint):
            await port.next()

    run(story())


def test_a_closed_pipe_is_an_end_even_if_a_listener_swallows_the_error() -> None:
    def closed_pipe(data: bytes) -> None:
        raise BrokenPipeError("the reader is gone")

    async def story() -> None:
        port = LinePort(closed_pipe, checker("consumer", CONSUMER))
        with pytest.raises(BrokenPipeError):
            port.emit("invoke", "consume", {}, None)
        with pytest.raises(BrokenPipeError):
            await port.next()

    run(story())


@pytest.mark.parametrize("blocking", [True, False])
def test_a_line_that_no_pipe_holds_is_written_completely(*, blocking: bool) -> None:
    source, target = os.pipe()
    os.set_blocking(target, blocking)
    data = bytes(range(256)) * 4096  # a pipe holds 64 KiB

    def write() -> None:
        write_all(target, data)
        os.close(target)

    writer = threading.Thread(target=write)
    writer.start()
    with open(source, "rb") as file:
        assert file.read() == data
    writer.join()


def test_the_first_line_is_apart_from_the_rest() -> None:
    source, target = os.pipe()
    os.write(target, b'{"group":"g"}\n' + SEND)
    os.close(target)
    assert read_first_line(source) == (b'{"group":"g"}', SEND)
    with pytest.raises(LineError, match="must be the configuration"):
        read_first_line(source)
    os.close(source)


def test_requests_are_read_from_a_pipe_as_they_come_and_from_a_file_at_once(tmp_path: Any) -> None:
    async def requests(descriptor: int) -> int:
        port = LinePort(lambda data: None, checker("producer", PRODUCER))
        feed_from(descriptor, port)
        for count in range(3):
            try:
                await port.next()
            except PortClosed:
                return count
        raise AssertionError("more requests than were written")

    (tmp_path / "requests").write_bytes(SEND * 2)
    with open(tmp_path / "requests", "rb") as file:
        assert asyncio.run(requests(file.fileno())) == 2
    source, target = os.pipe()
    os.write(target, SEND * 2)
    os.close(target)
    assert asyncio.run(requests(source)) == 2
    os.close(source)
