"""The name servers' own faults: one that plays dead, one that forgets, and lists that differ."""

from __future__ import annotations

from random import Random

from faults.capabilities import Controls, Evidence
from faults.draws import pick
from faults.fault import Fault, PlannedFault, Situation, Strike
from faults.process_faults import Pause, ProcessFault


class NameServerFreeze(Pause):
    name = "name-server-freeze"
    summary = "a name server plays dead: TCP open, requests accepted, never an answer"
    duration_s = (5.0, 20.0)

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        return Strike(targets=(pick(random, situation.shape.name_servers),))


class NameServerAmnesia(ProcessFault):
    name = "name-server-amnesia"
    affects = (
        "stops",
        "forgets",
    )
    summary = "a name server restarts and has forgotten every route"
    needs = ("process.server", "cluster")
    duration_s = (0.5, 3.0)

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        return Strike(targets=(pick(random, situation.shape.name_servers),))

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        known = await controls.cluster.routes_known(planned.targets[0])
        killed = await controls.process.kill(planned.targets[0])
        return {"bitten": killed and known > 0, "routes_forgotten": known}


class SplitNameServers(Fault):
    name = "split-name-servers"
    affects = ("routes",)
    summary = "a broker and a client know only one name server each, and not the same one"
    needs = ("cluster.set_name_servers",)
    duration_s = (5.0, 15.0)
    max_per_run = 1

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        shape = situation.shape
        if len(shape.name_servers) < 2:
            return None
        broker = pick(random, tuple(broker.node for broker in shape.brokers))
        return Strike(
            targets=(broker, pick(random, shape.clients)),
            params={"broker_sees": shape.name_servers[0], "client_sees": shape.name_servers[-1]},
        )

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        broker, client = planned.targets
        split_broker = await controls.cluster.set_name_servers(
            broker, [planned.params["broker_sees"]]
        )
        split_client = await controls.cluster.set_name_servers(
            client, [planned.params["client_sees"]]
        )
        return {"bitten": split_broker and split_client}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        for node in planned.targets:
            await controls.cluster.set_name_servers(node, [])
        return fired
