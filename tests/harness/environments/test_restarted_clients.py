"""Killed clients in the simulation: before their exit was noticed, and because they do not answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from staticfire.harness.clients.port import ClientPort, Outcome
from staticfire.harness.environments.environment import ANSWER_S
from staticfire.harness.environments.simulated.environment import (
    SimulatedNode,
    SimulationEnvironment,
)
from staticfire.harness.simulation.hosts.world import World

NAME = "producer-1"


class Host:
    """Starts processes that end when the test says so."""

    powered = True

    def start(self, name: str, main: Any) -> Any:
        return SimpleNamespace(exit=asyncio.get_running_loop().create_future(), alive=True)


def environment_of(node: SimulatedNode) -> SimulationEnvironment:
    environment = object.__new__(SimulationEnvironment)
    environment.nodes = {NAME: node}
    made = SimpleNamespace(
        _main=lambda node: _with_new_port(node),
        _with_tls=lambda name, main: main,
        on_server_start=None,
    )
    vars(environment).update(vars(made))
    return environment


def _with_new_port(node: SimulatedNode) -> None:
    node.port = ClientPort(lambda *_: None)


def test_an_end_abandons_the_requests_of_its_own_process_alone() -> None:
    async def main() -> None:
        node = SimulatedNode(NAME, cast(Any, Host()))
        environment = environment_of(node)
        environment.start_now(NAME)
        first = cast(Any, node.process)
        asked = asyncio.ensure_future(environment.request(NAME, {"f": "open"}))
        await asyncio.sleep(0)
        first.alive = False
        first.exit.set_result(SimpleNamespace(kind="killed"))
        environment.start_now(NAME)
        asked_anew = asyncio.ensure_future(environment.request(NAME, {"f": "open"}))

        assert await asyncio.wait_for(asked, 1) == Outcome("info", {}, f"{NAME} ended")
        assert not asked_anew.done()
        asked_anew.cancel()

    asyncio.run(main())


@pytest.mark.parametrize(("after_s", "ends"), [(ANSWER_S - 1, 0), (ANSWER_S + 1, 1)])
def test_a_client_that_does_not_answer_is_killed(after_s: float, ends: int) -> None:
    recorded: list[tuple[Any, ...]] = []

    async def main() -> None:
        node = SimulatedNode(NAME, cast(Any, Host()))
        environment = environment_of(node)
        environment.recorder = cast(Any, SimpleNamespace(record=lambda *op: recorded.append(op)))
        environment.start_now(NAME)
        process = cast(Any, node.process)
        process.kill = lambda: process.exit.set_result(SimpleNamespace(kind="killed"))
        environment.end_silent_clients()  # no request is unanswered
        asked = asyncio.ensure_future(environment.request(NAME, {"f": "send"}))
        await asyncio.sleep(after_s)
        node.wanted = False  # it is not started again
        environment.end_silent_clients()
        await asyncio.sleep(0.1)
        assert asked.done() is bool(ends)
        asked.cancel()

    World(1).run(main)
    assert [op[2] for op in recorded] == ["node_exit"] * ends
    assert all("had not answered a request for 300 s" in op[4] for op in recorded)
