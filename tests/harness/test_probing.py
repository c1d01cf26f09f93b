"""Probes: a broker that ends again and again is given up; any other one is asked until the bound is over."""

from __future__ import annotations

from typing import cast

import pytest

from harness.clients.port import Outcome, Request
from harness.environments.environment import Environment
from harness.probing import Prober
from harness.simulation.world import World
from tests.harness.one_broker import OneBroker


class Silent(OneBroker):
    """The broker takes no send."""

    def __init__(self, world: World, *, is_dead: bool) -> None:
        super().__init__(world)
        self._is_dead = is_dead

    def is_dead(self, node: str) -> bool:
        return self._is_dead

    async def ready(self, node: str) -> None:
        """The producer runs."""

    async def request(self, node: str, request: Request) -> Outcome:
        return Outcome("fail", {}, "no connection")


@pytest.mark.parametrize(
    ("is_dead", "until_s", "error"),
    [
        (False, 120.0, "no connection"),
        (True, 0.0, "broker-a-0 ends again and again; no connection"),
    ],
)
def test_how_long_a_broker_is_asked(is_dead: bool, until_s: float, error: str) -> None:
    world = World(1)
    silent = Silent(world, is_dead=is_dead)
    world.run(lambda: Prober(cast(Environment, silent)).probe_all(120.0))
    probe = silent.recorder.ops[-1]
    assert (probe.f, probe.type, probe.error) == ("probe", "fail", error)
    assert probe.time_ns / 1e9 == pytest.approx(until_s, abs=0.5)
