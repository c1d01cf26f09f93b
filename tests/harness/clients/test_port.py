"""The port between harness and client process: every request ends exactly once, also when the process dies."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from staticfire.harness.clients.port import ClientPort, Outcome
from staticfire.harness.simulation.hosts.world import World

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    return World(1).run(lambda: main)


def new_port() -> ClientPort:
    return ClientPort(lambda type, f, value, error: None)


def test_a_request_gets_its_own_reply() -> None:
    async def story() -> list[Outcome]:
        port = new_port()
        waiting = [asyncio.ensure_future(port.request({"f": name})) for name in ("a", "b")]
        replies = [await port.next() for _ in waiting]
        for request, reply in reversed(replies):
            reply(Outcome("ok", {"f": request["f"]}))
        return [await one for one in waiting]

    assert run(story()) == [Outcome("ok", {"f": "a"}), Outcome("ok", {"f": "b"})]


def test_what_a_dead_process_did_not_answer_is_unknown() -> None:
    async def story() -> list[Outcome]:
        port = new_port()
        waiting = [asyncio.ensure_future(port.request({"f": "send"})) for _ in range(2)]
        _, reply = await port.next()  # one was begun, the other still lies in the queue
        port.abandon("producer-1 ended")
        reply(Outcome("ok", {}))  # too late: the harness must ignore it
        return [await one for one in waiting]

    assert run(story()) == [Outcome("info", {}, "producer-1 ended")] * 2


def test_a_reply_from_before_the_death_counts() -> None:
    async def story() -> Outcome:
        port = new_port()
        waiting = asyncio.ensure_future(port.request({"f": "send"}))
        _, reply = await port.next()
        reply(Outcome("fail", {}, "TOPIC_NOT_EXIST"))
        port.abandon("producer-1 ended")
        return await waiting

    assert run(story()) == Outcome("fail", {}, "TOPIC_NOT_EXIST")


def test_a_second_reply_changes_nothing() -> None:
    async def story() -> Outcome:
        port = new_port()
        waiting = asyncio.ensure_future(port.request({"f": "send"}))
        _, reply = await port.next()
        reply(Outcome("ok", {}))
        reply(Outcome("fail", {}))
        return await waiting

    assert run(story()).type == "ok"


def test_a_request_to_a_dead_process_ends_at_once() -> None:
    async def story() -> Outcome:
        port = new_port()
        port.abandon("consumer-1 ended")
        return await port.request({"f": "open"})

    assert run(story()) == Outcome("info", {}, "consumer-1 ended")
