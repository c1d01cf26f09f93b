"""Clients that neither answer nor exit: the reaction of the harness. No process is started."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.port import Outcome
from staticfire.harness.clients.process_port import ProcessPort
from staticfire.harness.environments.real import bounded_log
from staticfire.harness.environments.real.environment import READY_S, RealEnvironment, RealNode
from staticfire.harness.environments.real.machine_provider import MachineProvider
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.machine import Machine, RunningProcess
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.targets.target import Target

NAME = "producer-1"


class StubbornProcess:
    """Ends when it is killed, and of nothing else."""

    def __init__(self) -> None:
        self.output = asyncio.StreamReader()
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def is_alive(self) -> bool:
        return not self.end.done()

    async def wait(self) -> str:
        return await asyncio.shield(self.end)

    async def signal(self, number: int) -> bool:
        if number == signal.SIGKILL:
            self.end.set_result("SIGKILL")
            self.output.feed_eof()
        return True


def no_target() -> Target:
    raise AssertionError("nothing is started")


def play(story: Callable[[RealEnvironment, RealNode], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        campaign = SimpleNamespace(topology=lambda: None, queues=4)
        environment = RealEnvironment(
            cast(Campaign, campaign),
            cast(Recorder, None),
            cast(MachineProvider, None),
            lambda _: no_target(),
        )
        node = environment.nodes[NAME] = RealNode(cast(Machine, SimpleNamespace(node=NAME)), ())
        await story(environment, node)

    World(1).run(main)


def start(node: RealNode, answer_s: float | None, log: Path = Path("/none")) -> StubbornProcess:
    process = StubbornProcess()
    node.machine.log = log
    node.process = cast(RunningProcess, process)
    node.port = ProcessPort(
        NAME, lambda *_: None, process.output, lambda _: None, {}, answer_s=answer_s
    )
    return process


def test_a_client_that_never_answers_is_killed() -> None:
    async def story(environment: RealEnvironment, node: RealNode) -> None:
        process = start(node, answer_s=300)
        listening = asyncio.ensure_future(environment._listen(node, cast(RunningProcess, process)))
        outcome = await environment.request(NAME, {"f": "send"})
        assert outcome.type == "info"
        assert await listening == outcome.error
        assert not process.is_alive

    play(story)


def test_a_client_that_floods_its_standard_error_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_log, "BYTES_MAX", 1000)
    monkeypatch.setattr(bounded_log, "KEPT_BYTES", 10)
    log = tmp_path / "log"

    async def story(environment: RealEnvironment, node: RealNode) -> None:
        process = start(node, answer_s=300, log=log)
        listening = asyncio.ensure_future(environment._listen(node, cast(RunningProcess, process)))
        asked = asyncio.ensure_future(environment.request(NAME, {"f": "send"}))
        await asyncio.sleep(1)
        log.write_bytes(b"x" * 1001)
        said = f"{NAME} does not keep to the line protocol: it wrote more than 1000 bytes to standard error"
        assert await listening == said
        assert await asked == Outcome("info", {}, said)
        assert not process.is_alive
        assert log.stat().st_size == 10

    play(story)


def test_a_client_that_does_not_come_back_ends_the_run() -> None:
    async def story(environment: RealEnvironment, node: RealNode) -> None:
        with pytest.raises(
            EnvironmentFailed, match=f"^{NAME} does not run again after {READY_S:g} s$"
        ):
            await environment.ready(NAME)
        start(node, answer_s=None)
        await environment.ready(NAME)

    play(story)
