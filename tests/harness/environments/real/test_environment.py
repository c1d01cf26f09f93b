"""Servers that exit by themselves: restarted, and given up after the third exit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from staticfire.checkers.model.history import NEMESIS
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.real import environment as real
from staticfire.harness.environments.real.environment import DEATHS_MAX, RealEnvironment
from staticfire.harness.environments.real.machine_provider import MachineProvider
from staticfire.harness.machines.machine import LaunchSpec, Machine
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.targets.target import Target

CAMPAIGN = draw_campaign(
    1, {"followers": (0,), "replication": "none", "environment": "processes", "faults": ()}
)
BROKER = "broker-a-0"


class Ended:
    """A process that ends as soon as it is started."""

    pid = 1
    is_alive = False

    def __init__(self) -> None:
        self.output = asyncio.StreamReader()
        self.output.feed_eof()

    async def wait(self) -> str:
        return "status 1"


@dataclass
class Somewhere:
    node: str
    log: Path
    folder: str = "/nowhere"

    async def launch(self, launch_spec: LaunchSpec) -> Ended:
        return Ended()


class Machines:
    """A machine provider that makes nothing."""

    def __init__(self, log: Path) -> None:
        self.log = log

    async def up(
        self, names: Sequence[str], *, servers: Sequence[str], needs: Set[str]
    ) -> Mapping[str, Any]:
        return {name: Somewhere(name, self.log) for name in names}

    async def down(self) -> None:
        """There is nothing."""


class Anything:
    """A target whose servers are started with an empty order."""

    def server_launch_spec(self, node: str, name_servers: Sequence[str]) -> LaunchSpec:
        return LaunchSpec(argv=())


async def turns(environment: RealEnvironment, ends: int) -> None:
    """Until the broker has ended by itself so many times."""
    async with asyncio.timeout(5.0):
        while len(environment.recorder.ops) < ends:
            await asyncio.sleep(0)


def test_a_server_that_ends_three_times_is_dead_until_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "RESTART_DELAY_S", 0.0)
    (tmp_path / "log").write_text("java.lang.Error: no room\n")
    provider = cast(MachineProvider, Machines(tmp_path / "log"))

    def target(machines: Mapping[str, Machine]) -> Target:
        return cast(Target, Anything())

    async def scenario() -> tuple[bool, bool, RealEnvironment]:
        environment = RealEnvironment(CAMPAIGN, Recorder(lambda: 0), provider, target)
        async with environment:
            await environment.start(BROKER)
            await turns(environment, DEATHS_MAX)
            was_dead = environment.is_dead(BROKER)
            await environment.start(BROKER)
            return was_dead, environment.is_dead(BROKER), environment

    was_dead, is_dead, environment = asyncio.run(scenario())
    assert (was_dead, is_dead) == (True, False)
    ends = {(op.process, op.f, op.error) for op in environment.recorder.ops}
    assert ends == {(NEMESIS, "node_exit", "status 1: java.lang.Error: no room")}
    assert environment.booting_ns() == 0  # our own brokers are there at once


@pytest.mark.parametrize(
    ("behaviour", "waits_s"),
    [("opens", 1.0), ("cannot open", 1.0), ("keeps ending", 1.0), ("says nothing", real.OPEN_S)],
)
def test_the_load_waits_for_clients_that_start_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, waits_s: float
) -> None:
    provider = cast(MachineProvider, Machines(tmp_path / "log"))
    environment = RealEnvironment(
        CAMPAIGN, Recorder(lambda: 0), provider, lambda _: cast(Target, Anything())
    )
    slept_s = 0.0
    sleep = asyncio.sleep

    async def asleep(delay_s: float) -> None:
        nonlocal slept_s
        slept_s += delay_s
        last = environment.nodes[environment.topology.clients[-1]]
        if slept_s >= 1.0:
            match behaviour:
                case "opens":
                    environment._emit(last, 0, "ok", "open", {}, None, None)
                case "cannot open":
                    environment._emit(last, 0, "fail", "open", {}, None, None)
                case "keeps ending":
                    last.deaths = DEATHS_MAX
        await sleep(0)

    async def scenario() -> None:
        async with environment:
            for name in environment.topology.clients[:-1]:
                environment._emit(environment.nodes[name], 0, "ok", "open", {}, None, None)
            monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: slept_s)
            monkeypatch.setattr(asyncio, "sleep", asleep)
            await environment.clients_open()

    asyncio.run(scenario())
    assert slept_s == pytest.approx(waits_s, abs=2 * real.READY_POLL_S)
