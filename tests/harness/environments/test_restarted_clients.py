"""A client of the simulation that is killed and started again before its end was noticed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from staticfire.harness.clients.port import ClientPort, Outcome
from staticfire.harness.environments.simulated.environment import (
    SimulatedNode,
    SimulationEnvironment,
)

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
