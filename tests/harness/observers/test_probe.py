"""Probes: a broker that has ended, refuses or stays silent is given up; others are asked until the time limit."""

from __future__ import annotations

import asyncio
import itertools
from typing import cast

import pytest

from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.environments.environment import Environment
from staticfire.harness.observers.probe import Prober
from staticfire.harness.simulation.hosts.world import World
from tests.harness.one_broker import OneBroker


class Silent(OneBroker):
    """The broker takes no send. `codes` are those of its refusals, over and over; none: nothing answers."""

    def __init__(self, world: World, *, is_dead: bool = False, codes: tuple[int, ...] = ()) -> None:
        super().__init__(world)
        self._is_dead = is_dead
        self._codes = itertools.cycle(codes)

    def is_dead(self, node: str) -> bool:
        return self._is_dead

    async def ready(self, node: str) -> None:
        """The producer runs."""

    async def request(self, node: str, request: Request) -> Outcome:
        code = next(self._codes, None)
        if code is None:
            return Outcome("fail", {}, "no connection")
        return Outcome("fail", {"code": code, "refused_by": "broker-a"}, "no")


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


@pytest.mark.parametrize(
    ("codes", "refusing_s", "until_s", "error"),
    [
        ((2,), 45, 45.0, "code 2 for 45 s, no longer waited for: no"),
        ((2,), None, 120.0, "no"),  # as in the simulation
        ((2, 1), 45, 120.0, "no"),  # it changes: something goes on
        ((14,), 45, 120.0, "no"),  # it says that it will serve
        ((), 45, 120.0, "no connection"),
    ],
)
def test_a_broker_that_refuses_and_refuses_is_not_waited_for(
    codes: tuple[int, ...], refusing_s: int | None, until_s: float, error: str
) -> None:
    world = World(1)
    silent = Silent(world, codes=codes)
    prober = Prober(cast(Environment, silent), refusing_s)
    world.run(lambda: prober.probe_all(120.0))
    probe = silent.recorder.ops[-1]
    assert (probe.f, probe.type, probe.error) == ("probe", "fail", error)
    assert probe.time_ns / 1e9 == pytest.approx(until_s, abs=0.5)
    assert prober.unserved == ["broker-a"]


class Mute(OneBroker):
    """The broker takes sends and answers none of them, until `answers_s`; each ends after `lasts_s`."""

    def __init__(
        self, world: World, *, lasts_s: float, boots_s: float = 0.0, answers_s: float = 1e9
    ) -> None:
        super().__init__(world)
        self._lasts_s = lasts_s
        self._boots_s = boots_s
        self._answers_s = answers_s

    def booting_ns(self) -> int:
        return min(self.now_ns(), int(self._boots_s * 1e9))

    def is_dead(self, node: str) -> bool:
        return False

    async def ready(self, node: str) -> None:
        """The producer runs."""

    async def request(self, node: str, request: Request) -> Outcome:
        if self.now_ns() > self._answers_s * 1e9:
            return Outcome("ok", {"status": "SEND_OK"})
        await asyncio.sleep(self._lasts_s)
        return Outcome("info", {"attempts": 1}, "the connection was closed")


@pytest.mark.parametrize(
    ("lasts_s", "boots_s", "refusing_s", "until_s"),
    [
        (3.0, 0.0, 45, 46.0),
        (3.0, 0.0, None, 120.0),  # as in the simulation
        (0.1, 0.0, 45, 120.0),  # connections are ended: it may be on its way up
        (3.0, 30.0, 45, 76.0),  # the time of a boot does not count
    ],
)
def test_a_broker_that_takes_sends_and_answers_none_is_not_waited_for(
    lasts_s: float, boots_s: float, refusing_s: int | None, until_s: float
) -> None:
    world = World(1)
    mute = Mute(world, lasts_s=lasts_s, boots_s=boots_s)
    prober = Prober(cast(Environment, mute), refusing_s)
    world.run(lambda: prober.probe_all(120.0))
    probe = mute.recorder.ops[-1]
    is_given_up = until_s < 120
    error = "no answer for 45 s, no longer waited for: " if is_given_up else ""
    assert (probe.type, probe.error) == ("fail", f"{error}the connection was closed")
    assert probe.time_ns / 1e9 == pytest.approx(until_s, abs=3.5)
    assert prober.unserved == ["broker-a"]


def test_a_silent_broker_that_recovers_within_the_time_serves() -> None:
    world = World(1)
    mute = Mute(world, lasts_s=3.0, answers_s=40.0)
    prober = Prober(cast(Environment, mute), 45)
    world.run(lambda: prober.probe_all(120.0))
    assert (mute.recorder.ops[-1].type, prober.unserved) == ("ok", [])
