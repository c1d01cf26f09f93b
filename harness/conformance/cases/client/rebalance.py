"""RMQ-RBL, of clients: the allocation of queues to the members of a group."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.client.consumption import Feeder
from staticfire.harness.conformance.cases.rebalance import members
from staticfire.harness.conformance.client import Client
from staticfire.harness.conformance.clients.stage import Stage
from staticfire.harness.conformance.failures import NotTriable
from staticfire.harness.conformance.request_fields import topic_fields
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode

REBALANCE_S, SLACK_S = 20.0, 10.0
ROUTE_S = 30.0  # clients ask for routes this often
ROUND_S = 3.0  # for a round of messages to be consumed
MEMBERS = 3


async def require_owned(
    stage: Stage, feeder: Feeder, alive: list[Client], *, within_s: float, after: str
) -> dict[int, Client]:
    """Wait until these members together consume a round of messages; return the owner of each queue.

    Raises ClauseBroken if a queue has no owner at the end of the time.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    while True:
        fresh = await feeder.round()
        await stage.until(lambda: fresh.keys() <= stage.consumed(), within_s=ROUND_S)  # noqa: B023
        owners = {
            fresh[key]: client
            for client in alive
            for key in client.consumed_keys()[-4 * len(fresh) :]
            if key in fresh
        }
        left = sorted(set(fresh.values()) - owners.keys())
        if not left and len({owner.name for owner in owners.values()}) == len(alive):
            return owners
        if loop.time() > until_s:
            require(not left, f"no consumer reads queues {left} {within_s:g} s after {after}")
            return owners
        await asyncio.sleep(0.5)


@case("RMQ-RBL-04", limit_s=240)
async def every_queue_has_an_owner(bench: Bench) -> None:
    queues = 7
    topic, broker = await bench.topic(queues=queues), await bench.broker()
    await bench.await_route(topic)
    group, stage = bench.fresh_name("g"), Stage(bench)
    feeder = Feeder(bench, broker, topic, queues)
    within_s = REBALANCE_S + SLACK_S
    alive: list[Client] = []
    for number in range(MEMBERS):
        alive.append(await stage.consumer(topic, group))
        after = f"member {number + 1} had joined"
        await require_owned(stage, feeder, alive, within_s=within_s, after=after)
    alive.pop(1).kill()
    await require_owned(stage, feeder, alive, within_s=within_s, after="a member had died")
    await alive.pop(0).stop()
    await require_owned(stage, feeder, alive, within_s=within_s, after="a member had left")


def averages(queues: int, count: int) -> list[list[int]]:
    """Return the queues of each member by AllocateMessageQueueAveragely, both sorted."""
    size, more = divmod(queues, count)
    starts = [number * size + min(number, more) for number in range(count + 1)]
    return [list(range(low, high)) for low, high in pairwise(starts)]


def circle(queues: int, count: int) -> list[list[int]]:
    """Return the queues of each member by AllocateMessageQueueAveragelyByCircle."""
    return [list(range(number, queues, count)) for number in range(count)]


async def shares(
    bench: Bench, stage: Stage, broker: Wire, strategy: str, queues: int
) -> list[list[int]]:
    """Start a group and return the queues of its members in the order of their client ids."""
    topic, group = await bench.topic(queues=queues), bench.fresh_name("g")
    await bench.await_route(topic)
    feeder = Feeder(bench, broker, topic, queues)
    notified: dict[str, Any] = {} if strategy == "AVG" else {"strategy": strategy}
    group_members = [await stage.consumer(topic, group, **notified) for _ in range(MEMBERS)]
    await asyncio.sleep(2)
    owners = await require_owned(
        stage,
        feeder,
        group_members,
        within_s=REBALANCE_S + SLACK_S,
        after=f"{MEMBERS} members had joined",
    )
    ids = await members(broker, group)
    require_equal("how many members the broker knows", len(ids), MEMBERS)
    # Libraries prefix the configured client id, so a suffix identifies the client.
    ordered = [
        next((one for one in group_members if known.endswith(one.client_id)), None) for known in ids
    ]
    if None in ordered:
        raise NotTriable(f"the client ids that the broker knows are others: {', '.join(ids)}")
    return [
        sorted(queue for queue, owner in owners.items() if owner is one)
        for one in ordered
        if one is not None
    ]


@case("RMQ-RBL-05", limit_s=120)
async def averages_as_in_java(bench: Bench) -> None:
    broker, stage = await bench.broker(), Stage(bench)
    for queues in (7, 3):
        found = await shares(bench, stage, broker, "AVG", queues)
        require_equal(f"who has which of {queues} queues", found, averages(queues, MEMBERS))
    try:
        found = await shares(bench, stage, broker, "AVG_BY_CIRCLE", 7)
    except NotTriable as error:
        bench.log.note("client", f"not tried: {error}")
        return
    require_equal("who has which queue by circle", found, circle(7, MEMBERS))


@case("RMQ-RBL-07", limit_s=300)
async def queues_come_and_go(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=2), await bench.broker()
    await bench.await_route(topic)
    group, stage = bench.fresh_name("g"), Stage(bench)
    alive = [await stage.consumer(topic, group) for _ in range(2)]
    within_s = ROUTE_S + REBALANCE_S + SLACK_S
    for queues in (2, 6, 3):
        fields = topic_fields(topic, queues=queues)
        changed = await broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        require_equal("the code for a change of the number of queues", changed.code, 0)
        feeder = Feeder(bench, broker, topic, queues)
        after = f"the topic had {queues} queues"
        await require_owned(stage, feeder, alive, within_s=within_s, after=after)
