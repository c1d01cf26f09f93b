"""Clients that crash, consume slowly or fail."""

from __future__ import annotations

from random import Random

from faults.capabilities import Controls, Evidence
from faults.fault import Fault, PlannedFault, Situation, Strike, between, pick


class ClientCrash(Fault):
    name = "client-crash"
    summary = "SIGKILL a producer or consumer, start a new one later"
    needs = ("client",)

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        return Strike(targets=(pick(random, situation.shape.clients),))

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        assert controls.client is not None
        return {"bitten": await controls.client.crash(planned.targets[0])}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        assert controls.client is not None
        await controls.client.restart(planned.targets[0])
        return fired


class SlowConsumer(Fault):
    name = "slow-consumer"
    summary = "the listener of a consumer takes long for every batch"
    needs = ("client",)

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        delay_s = round(between(random, 0.2, 2.0), 3)
        return Strike(
            targets=(pick(random, situation.shape.consumers),), params={"delay_s": delay_s}
        )

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        assert controls.client is not None
        node = planned.targets[0]
        before = controls.client.listener_counters(node)["delayed"]
        await controls.client.slow_listener(node, planned.params["delay_s"])
        return {"before": before}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        assert controls.client is not None
        node = planned.targets[0]
        await controls.client.slow_listener(node, 0.0)
        delayed = controls.client.listener_counters(node)["delayed"] - fired["before"]
        return {"bitten": delayed > 0, "delayed_batches": delayed}


class FailingListener(Fault):
    name = "failing-listener"
    summary = "the listener of a consumer fails for a share of the batches; they must come again"
    needs = ("client",)

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        share = round(between(random, 0.1, 0.6), 2)
        return Strike(targets=(pick(random, situation.shape.consumers),), params={"share": share})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        assert controls.client is not None
        node = planned.targets[0]
        before = controls.client.listener_counters(node)["failed"]
        await controls.client.failing_listener(node, planned.params["share"])
        return {"before": before}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        assert controls.client is not None
        node = planned.targets[0]
        await controls.client.failing_listener(node, 0.0)
        failed = controls.client.listener_counters(node)["failed"] - fired["before"]
        return {"bitten": failed > 0, "failed_batches": failed}
