from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.client.errors import NoNameServer
from staticfire.system_under_test.client.routing.name_servers import NameServers
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.system_under_test.client.scripted_remoting import (
    LATENCY_S,
    Answer,
    Script,
    ScriptedRemoting,
    answer_code,
    answer_route,
    refuse_connection,
    route_of,
    stay_silent,
)
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s
from tests.system_under_test.remoting.manual_loop import MemoryLog

KNOWS_A = answer_route(route_of("a"))
KNOWS_B = answer_route(route_of("b"))
KNOWS_NOTHING = answer_code(ResponseCode.TOPIC_NOT_EXIST)


class Servers:
    """Name servers n1, n2, ... that follow these scripts."""

    def __init__(self, *scripts: Script) -> None:
        self.remoting = ScriptedRemoting()
        self.addresses = [f"n{number}" for number in range(1, len(scripts) + 1)]
        self.remoting.scripts.update(zip(self.addresses, scripts, strict=True))
        self.servers = NameServers(self.remoting.client, self.addresses, MemoryLog())

    async def brokers(self) -> str | None:
        route = await self.servers.route("t")
        return None if route is None else " ".join(sorted(route))


@pytest.mark.parametrize(
    ("scripts", "brokers", "at_s"),
    [
        ([KNOWS_A], "a", LATENCY_S),
        ([KNOWS_A, KNOWS_B], "a b", LATENCY_S),
        ([KNOWS_A, stay_silent], "a", 0.5),
        ([stay_silent, KNOWS_A], "a", 0.5),
        ([refuse_connection, KNOWS_A], "a", LATENCY_S),
        ([KNOWS_NOTHING, KNOWS_A], "a", LATENCY_S),  # code 17 of one is not believed
        ([KNOWS_NOTHING, KNOWS_NOTHING], None, LATENCY_S),
        ([KNOWS_NOTHING, stay_silent], None, 0.5),
        ([stay_silent, stay_silent, KNOWS_A], "a", 0.5),
    ],
)
@in_virtual_time
async def test_first_question(scripts: list[Script], brokers: str | None, at_s: float) -> None:
    servers = Servers(*scripts)
    assert await servers.brokers() == brokers
    assert now_s() == pytest.approx(at_s)


@in_virtual_time
async def test_no_name_server_answers() -> None:
    servers = Servers(stay_silent, refuse_connection)
    with pytest.raises(NoNameServer, match="n1, n2"):
        await servers.brokers()
    assert now_s() == pytest.approx(3.0)


@in_virtual_time
async def test_a_silent_server_is_waited_for_only_once() -> None:
    servers = Servers(stay_silent, KNOWS_A)
    await servers.brokers()
    assert servers.servers.silent == ["n1"]
    for _ in range(10):
        started_s = now_s()
        assert await servers.brokers() == "a"
        assert now_s() - started_s == pytest.approx(LATENCY_S)


@in_virtual_time
async def test_at_most_one_question_to_a_silent_server_is_open() -> None:
    servers = Servers(stay_silent, KNOWS_A)
    for _ in range(20):
        await servers.brokers()
        await asyncio.sleep(0.1)
    assert len(servers.remoting.calls_to("n1", 105)) == 1
    await asyncio.sleep(3.0)
    await servers.brokers()
    assert len(servers.remoting.calls_to("n1", 105)) == 2


@in_virtual_time
async def test_a_server_that_answers_again_is_trusted_again() -> None:
    servers = Servers(stay_silent, KNOWS_A)
    await servers.brokers()
    servers.remoting.scripts["n1"] = KNOWS_B
    await asyncio.sleep(3.0)  # the open question fails
    await servers.brokers()  # asked, but not waited for
    await asyncio.sleep(0.1)
    assert servers.servers.silent == []
    assert await servers.brokers() == "a b"


@in_virtual_time
async def test_the_last_one_that_answers_is_enough_when_it_is_slow() -> None:
    servers = Servers(stay_silent, stay_silent)
    with pytest.raises(NoNameServer):
        await servers.brokers()
    servers.remoting.scripts["n2"] = KNOWS_B
    assert await servers.brokers() == "b"


@in_virtual_time
async def test_an_unreadable_route_counts_as_no_route() -> None:
    def broken(request: RemotingCommand) -> Answer:
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=b"{nonsense")

    assert await Servers(broken, KNOWS_B).brokers() == "b"
    assert await Servers(broken).brokers() is None
