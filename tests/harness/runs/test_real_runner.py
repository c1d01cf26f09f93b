"""A run ends at once if a client declines its configuration."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.checkers.model.history import NEMESIS
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.runs.real_runner import unless_declined
from staticfire.harness.systems.errors import RunError


async def no_end(ended: list[str]) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        ended.append("load")


async def declining(recorder: Recorder, ended: list[str]) -> None:
    asyncio.get_running_loop().call_soon(
        lambda: recorder.record(7, "fail", "open", {}, "no such strategy", "consumer-1")
    )
    await unless_declined(no_end(ended), recorder)


def test_a_client_that_declines_ends_the_run() -> None:
    recorder, ended = Recorder(lambda: 0), list[str]()
    sentence = "consumer-1 cannot do what its configuration asks for: no such strategy"
    with pytest.raises(RunError, match=sentence):
        asyncio.run(declining(recorder, ended))
    assert ended == ["load"]
    assert recorder.listeners == []


def exit_of(recorder: Recorder, node: str) -> None:
    value = {"targets": [node], "phase": "exited"}
    recorder.record(NEMESIS, "info", "node_exit", value, "status 2: no such file", node)


def test_a_command_that_starts_no_client_ends_the_run() -> None:
    """A broker that ends, or a consumer that ends after another one has opened, belongs to the history."""
    recorder, ended = Recorder(lambda: 0), list[str]()

    async def run(*, by_command: bool) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(exit_of, recorder, "broker-a-0")
        loop.call_soon(lambda: recorder.record(8, "ok", "open", {}, None, "consumer-2"))
        loop.call_soon(exit_of, recorder, "consumer-1")
        loop.call_soon(exit_of, recorder, "producer-1")
        work = no_end(ended) if by_command else asyncio.sleep(0.01)
        await unless_declined(work, recorder, by_command=by_command)

    sentence = (
        "--client starts no producer: producer-1 ended before its 'open': status 2: no such file"
    )
    with pytest.raises(RunError, match=sentence):
        asyncio.run(run(by_command=True))
    assert ended == ["load"]
    asyncio.run(run(by_command=False))


def test_other_ops_and_clients_that_open_do_not_end_it() -> None:
    recorder, done = Recorder(lambda: 0), list[str]()

    async def load() -> None:
        recorder.record(7, "ok", "open", {}, None, "consumer-1")
        recorder.record(1, "fail", "send", {}, "refused", "producer-1")
        done.append("load")

    asyncio.run(unless_declined(load(), recorder))
    assert done == ["load"]


def test_what_the_work_raises_passes() -> None:
    async def failing() -> None:
        raise RunError("the cluster did not come up")

    with pytest.raises(RunError, match="the cluster did not come up"):
        asyncio.run(unless_declined(failing(), Recorder(lambda: 0)))


def test_a_cancelled_run_ends_its_work() -> None:
    ended = list[str]()

    async def cancelled() -> None:
        run = asyncio.ensure_future(unless_declined(no_end(ended), Recorder(lambda: 0)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cancelled())
    assert ended == ["load"]
