"""The drain: waits until the group has consumed everything, and reports when it gives up."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from staticfire.checkers.model.history import OpType
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.environments.environment import Environment
from staticfire.harness.rocketmq.administration.changes import ClusterChanges
from staticfire.harness.rocketmq.observers.drain import RETRY_BOUND_S, Drain
from staticfire.harness.simulation.hosts.world import World
from tests.harness.one_broker import OneBroker


class Idle(OneBroker):
    """The group has committed whatever its queue holds."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.dead: set[str] = set()

    def is_dead(self, node: str) -> bool:
        return node in self.dead

    def server_address(self, node: str) -> str:
        return f"{node}:10911"

    async def request(self, node: str, request: Request) -> Outcome:
        if self.dead:
            return Outcome("fail", {}, "no connection")
        return Outcome("ok", {"queues": [[0, 0, 5, 5]]})

    def consume(self, type: OpType, topic: str, key: str) -> None:
        value: dict[str, Any] = {
            "group": "g",
            "topic": topic,
            "broker": "broker-a",
            "queue": 0,
            "messages": [[key, 1, 100, True, 0]],
        }
        self.recorder.record(100_000, type, "consume", value)


def drained_at_s(*consumed: tuple[float, OpType, str, str]) -> float:
    """When the drain ended, with deliveries at these seconds."""
    world = World(1)
    idle = Idle(world)

    async def main() -> None:
        for at_s, type, topic, key in consumed:
            asyncio.get_running_loop().call_later(at_s, idle.consume, type, topic, key)
        await asyncio.sleep(0.01)
        await Drain(cast(Environment, idle), ClusterChanges(1)).run(180.0)

    world.run(main)
    [drain] = [op for op in idle.recorder.ops if op.f == "drain"]
    assert drain.type == "ok"
    return drain.time_ns / 1e9


def test_what_the_listener_failed_for_comes_again_from_the_retry_topic() -> None:
    failed: tuple[float, OpType, str, str] = (0.0, "info", "T", "k")
    assert drained_at_s() < 1.0
    assert drained_at_s(failed, (10.0, "ok", "%RETRY%g", "k")) > 9.5
    assert drained_at_s(failed, (0.0, "ok", "T", "k")) < 1.0


def test_what_never_comes_again_is_not_waited_for_for_ever() -> None:
    waited_s = drained_at_s((0.0, "info", "T", "k"), (1.0, "invoke", "T", "k"))
    assert RETRY_BOUND_S < waited_s < RETRY_BOUND_S + 3.0


def test_a_broker_that_ends_again_and_again_is_not_waited_for() -> None:
    world = World(1)
    idle = Idle(world)
    idle.dead = {"broker-a-0"}
    stored = {"key": "k", "topic": OneBroker.campaign.topic, "broker": "broker-a", "queue": 0}
    idle.recorder.record(1, "ok", "send", {**stored, "queue_offset": 9})
    world.run(lambda: Drain(cast(Environment, idle), ClusterChanges(1)).run(180.0))
    drains = [op for op in idle.recorder.ops if op.f == "drain"]
    assert {(op.type, op.error) for op in drains} == {
        ("info", "lag is 0; broker-a-0 ends again and again")
    }
    assert drains[-1].time_ns < 1e9


class Stuck(Idle):
    """The group is behind, and goes on by one at each of these times; every second question is not answered."""

    def __init__(self, world: World, *moves_s: float) -> None:
        super().__init__(world)
        self._moves_s = moves_s
        self._asked = 0

    async def request(self, node: str, request: Request) -> Outcome:
        self._asked += 1
        if self._asked % 2 == 0:
            return Outcome("info", {}, "no answer")
        moved = sum(at_s * 1e9 < self.now_ns() for at_s in self._moves_s)
        return Outcome("ok", {"queues": [[0, 0, 5, moved]]})


@pytest.mark.parametrize(
    ("still_s", "moves_s", "until_s"),
    [(45, (), 46.0), (45, (40.0, 70.0), 117.0), (None, (), 181.0)],
)
def test_what_does_not_move_is_not_waited_for_where_a_broker_refuses(
    still_s: int | None, moves_s: tuple[float, ...], until_s: float
) -> None:
    world = World(1)
    stuck = Stuck(world, *moves_s)
    world.run(lambda: Drain(cast(Environment, stuck), ClusterChanges(1), still_s).run(180.0))
    [drain] = [op for op in stuck.recorder.ops if op.f == "drain"]
    assert drain.time_ns / 1e9 == pytest.approx(until_s, abs=2.0)
    assert drain.type == "info"
    assert drain.value.get("still_s") == still_s
    why = " after 180 s" if still_s is None else "; nothing has moved for 45 s"
    assert str(drain.error).endswith(why)
