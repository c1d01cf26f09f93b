"""Probes: a broker that ends again and again is given up; any other one is asked until the bound is over."""

from __future__ import annotations

from typing import cast

import pytest

from harness.campaign_draw import draw_campaign
from harness.clients.port import Outcome, Request
from harness.environments.environment import Environment
from harness.probing import Prober
from harness.recorder import Recorder
from harness.simulation.world import World

CAMPAIGN = draw_campaign(1, {"slaves": (0,), "queues": 1})


class Silent:
    """An environment of one broker that takes no send."""

    campaign = CAMPAIGN
    shape = CAMPAIGN.shape()

    def __init__(self, world: World, *, is_dead: bool) -> None:
        self._world = world
        self._is_dead = is_dead
        self.recorder = Recorder(self.now_ns)

    def now_ns(self) -> int:
        return self._world.now_ns

    def is_lost(self, node: str) -> bool:
        return False

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
