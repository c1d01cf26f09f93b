"""The events that make a member fetch the members of its group again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from staticfire.system_under_test.client.consumer.pull.pull_consumer import PullConsumerConfig
from staticfire.system_under_test.client.consumer.rebalance.allocation import strategy
from staticfire.system_under_test.client.consumer.rebalance.rebalancing import Rebalancing
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.routing.routes import broker_routes
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.system_under_test.client.scripted_remoting import (
    Answer,
    ScriptedRemoting,
    by_code,
    make_env,
    route_of,
)
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s, run


class Taken:
    """The queues of a member, which it gets at once."""

    def __init__(self) -> None:
        self.queues: list[MessageQueue] = []

    async def take_share(self, _topic: str, share: list[MessageQueue]) -> tuple[bool, bool]:
        self.queues = share
        return True, True


@pytest.mark.parametrize(("came_back", "looks_at_s"), [(True, (0, 1)), (False, (0,))])
def test_a_broker_that_has_just_come_back_is_asked_again(
    remoting: ScriptedRemoting, came_back: bool, looks_at_s: tuple[int, ...]
) -> None:
    """It knows one member of two when it is asked first. Nothing tells the member of the other."""

    start_s = 0.0

    def members(request: RemotingCommand) -> Answer:
        ids = ["c"] if now_s() - start_s < 0.5 else ["c", "d"]
        body = json_dialect.dumps({"consumerIdList": ids})
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body)

    async def main() -> None:
        nonlocal start_s
        start_s = now_s()
        client = ClientInstance(
            make_env(), PullConsumerConfig(client_id="c", name_servers=(), group="g")
        )
        client.routes.update("t", broker_routes(route_of("a", queues=4)), now_s())
        if came_back:
            client.health.note_arrivals(["a:0"])
        taken = Taken()
        rebalancing = Rebalancing(
            client,
            "g",
            cast(Any, taken),
            ["t"],
            allocate=strategy("AVG"),
            on_assignment=None,
        )
        rebalancing.task.start()
        rebalancing.wake()
        await asyncio.sleep(1.5)
        looks = [round(call.at_s - start_s) for call in remoting.calls_to("a:0", 38)]
        assert tuple(looks) == looks_at_s
        assert len(taken.queues) == (2 if came_back else 4)
        await asyncio.sleep(10)
        assert len(remoting.calls_to("a:0", 38)) <= 7  # for as long as members may be on their way
        await rebalancing.task.stop()

    remoting.scripts["a:0"] = by_code(other=members)
    run(main())


@in_virtual_time
async def test_a_client_without_a_master_asks_for_the_route(remoting: ScriptedRemoting) -> None:
    config = PullConsumerConfig(client_id="c", name_servers=("n:1",), group="g")
    client = ClientInstance(make_env(), config)
    route = route_of("a", "b", slaves=True)
    [whole, slave] = route.broker_datas
    slave = replace(slave, broker_addrs={1: "b:1"})
    client.routes.update("t", broker_routes(replace(route, broker_datas=[whole, slave])), now_s())
    client.start()
    client.use_topic("t")
    await asyncio.sleep(1)
    asked = len(remoting.calls_to("n:1", 105))
    client.look_for_master("a")
    client.look_for_master("unknown")
    await asyncio.sleep(1)
    assert len(remoting.calls_to("n:1", 105)) == asked
    client.look_for_master("b")
    await asyncio.sleep(1)
    assert len(remoting.calls_to("n:1", 105)) > asked
    await client.stop()
