"""Restarts every broker of a healthy cluster, one after the other, as operators do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.draws import pick, shuffled
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault

# wait for a broker to answer again; after it the next broker restarts in any case
ANSWER_BOUND_S = 30.0
POLL_S = 0.2


async def restart_each(controls: Controls, brokers: Sequence[str], within_s: float) -> Evidence:
    """Restart nodes one by one (SIGTERM, start, wait for an answer), as long as `within_s` is likely to suffice.

    Evidence: the brokers that were `restarted`, that `failed` to stop or to answer again, or that were `left_out`; and
    `struck`, when each was down: begin and end relative to the end of the last restart, in ns.
    """
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    longest_s = 0.0
    rolled: dict[str, list[str]] = {"restarted": [], "failed": [], "left_out": []}
    struck: list[tuple[str, float, float]] = []
    for broker in brokers:
        begun_s = loop.time()
        if begun_s - start_s + longest_s > within_s:
            rolled["left_out"].append(broker)
            continue
        is_done = await _restart(controls, broker)
        rolled["restarted" if is_done else "failed"].append(broker)
        longest_s = max(longest_s, loop.time() - begun_s)
        struck.append((broker, begun_s, loop.time()))
    times = [
        {"node": broker, "began_ago_ns": ago_ns(begun_s), "ended_ago_ns": ago_ns(ended_s)}
        for broker, begun_s, ended_s in struck
    ]
    is_done = bool(rolled["restarted"]) and not rolled["failed"]
    return {**rolled, "struck": times, "bitten": is_done}


def ago_ns(at_s: float) -> int:
    """Return how long ago a time of the event loop was, in ns."""
    return int((asyncio.get_running_loop().time() - at_s) * 1e9)


async def _restart(controls: Controls, broker: str) -> bool:
    stopped = await controls.process.stop(broker)
    await controls.process.start(broker)
    return await _answers_again(controls, broker) and stopped


async def _answers_again(controls: Controls, broker: str) -> bool:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + ANSWER_BOUND_S
    while not await controls.cluster.answers(broker):
        if loop.time() > deadline_s:
            return False
        await asyncio.sleep(POLL_S)
    return True


class RollingRestart(Fault):
    """Restarts all brokers, as far as the fault's duration allows. No other fault may strike the brokers meanwhile."""

    name = "rolling-restart"
    affects: ClassVar[tuple[str, ...]] = ("stops",)
    summary = "SIGTERM and restart every broker in turn, each when the previous one answers again"
    needs = ("process.server", "cluster")
    strikes_all = True
    max_per_run = 1
    duration_s = (8.0, 12.0)
    roles: ClassVar[tuple[str, ...]] = ("replica",)
    many = True
    strikes = "in_turn"
    simulated = (
        "`graceful-stop` and restart of each broker in turn, each when the previous one answers, for "
        "as many brokers as the duration allows"
    )
    proof = "each broker exited by itself and answered again"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=self._order(random, context))

    def _order(self, random: Random, context: ClusterContext) -> tuple[str, ...]:
        return tuple(shuffled(random, (broker.node for broker in context.topology.replicas)))

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        return await restart_each(controls, planned.targets, planned.duration_s)

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        return fired


class NameServerFreezeInRollingRestart(RollingRestart):
    """Freezes a name server, the first target, during a rolling restart.

    Each broker waits for the name server's answer in vain, so its restart takes some seconds longer.
    """

    name = "name-server-freeze-in-rolling-restart"
    affects = ("stalls", "stops")
    summary = "a name server never answers while every broker is restarted in turn"
    duration_s = (12.0, 24.0)
    roles: ClassVar[tuple[str, ...]] = ("coordinator", "replica")
    simulated = "`rolling-restart` while a name server is frozen"
    proof = "the name server was silent, and each broker exited by itself and answered again"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        name_server = pick(random, context.topology.coordinators)
        return FaultParams(targets=(name_server, *self._order(random, context)))

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        name_server, *brokers = planned.targets
        start_s = asyncio.get_running_loop().time()
        paused = await controls.process.pause(name_server)
        silent = not await controls.cluster.answers(name_server)
        rolled = await restart_each(controls, brokers, planned.duration_s)
        frozen = {"node": name_server, "began_ago_ns": ago_ns(start_s), "affects": ["stalls"]}
        struck = [frozen, *({**one, "affects": ["stops"]} for one in rolled["struck"])]
        bitten = rolled["bitten"] and paused and silent
        return {**rolled, "struck": struck, "bitten": bitten, "silent": silent}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await controls.process.resume(planned.targets[0])
        return fired
