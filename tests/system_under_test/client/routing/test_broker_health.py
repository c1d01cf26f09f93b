from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.client.routing.broker_health import (
    PROBE_TIMEOUT_S,
    QUIET_S,
    BrokerHealth,
)
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.remoting import RemotingClosed, RemotingTimeout
from tests.system_under_test.client.scripted_remoting import (
    LATENCY_S,
    ScriptedRemoting,
    answer_code,
    refuse_connection,
    stay_silent,
)
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s
from tests.system_under_test.remoting.manual_loop import MemoryLog

ANSWER = answer_code(ResponseCode.SYSTEM_ERROR)  # whatever the answer: it is an answer
PING = 38


class Health:
    """The health of one broker at `b`, and what was reported of it."""

    def __init__(self) -> None:
        self.remoting = ScriptedRemoting()
        self.remoting.scripts["b"] = ANSWER
        self.configured: list[tuple[str, float]] = []
        self.health = BrokerHealth(
            self.remoting.client,
            MemoryLog(),
            group="g",
            on_silent=lambda _: self.configured.append(("silent", now_s())),
            on_back=lambda _: self.configured.append(("back", now_s())),
        )


@in_virtual_time
async def test_a_slow_broker_that_answers_the_ping_is_not_silent() -> None:
    b = Health()
    b.health.failed("b", RemotingTimeout("slow"))
    await asyncio.sleep(5.0)
    assert b.configured == []
    assert b.health.is_answering("b")


@in_virtual_time
async def test_a_broker_that_plays_dead_is_silent_until_it_answers() -> None:
    b = Health()
    b.remoting.scripts["b"] = stay_silent
    b.health.failed("b", RemotingTimeout("no answer"))
    await asyncio.sleep(600.0)
    assert not b.health.is_answering("b")
    b.remoting.scripts["b"] = ANSWER
    await asyncio.sleep(PROBE_TIMEOUT_S)
    assert b.health.is_answering("b")
    assert [what for what, _ in b.configured] == ["silent", "back"]
    assert b.configured[0][1] == pytest.approx(1.0)


@in_virtual_time
async def test_a_broken_connection_means_silent_until_a_new_one_has_brought_an_answer() -> None:
    b = Health()
    b.health.failed("b", RemotingClosed("reset"))
    assert not b.health.is_answering("b")
    await asyncio.sleep(0.1)
    assert b.configured == [("silent", 0.0), ("back", pytest.approx(LATENCY_S))]


@in_virtual_time
async def test_a_broker_that_refuses_connections_is_asked_once_a_second() -> None:
    b = Health()
    b.remoting.scripts["b"] = refuse_connection
    b.health.failed("b", RemotingClosed("killed"))
    await asyncio.sleep(10.5)
    assert len(b.remoting.calls_to("b", PING)) == 11


@in_virtual_time
async def test_other_failures_meanwhile_change_nothing() -> None:
    b = Health()
    b.remoting.scripts["b"] = stay_silent
    for _ in range(3):
        b.health.failed("b", RemotingClosed("reset"))
        b.health.failed("b", RemotingTimeout("no answer"))
    await asyncio.sleep(1.0)
    assert len(b.remoting.calls_to("b", PING)) == 1
    assert [what for what, _ in b.configured] == ["silent"]


@in_virtual_time
async def test_quiet_brokers_are_pinged_and_busy_ones_are_not() -> None:
    b = Health()
    for _ in range(10):
        b.health.check_quiet(["b"])
        b.health.heard("b")
        await asyncio.sleep(QUIET_S * 0.9)
    assert b.remoting.calls == []
    await asyncio.sleep(QUIET_S)
    b.health.check_quiet(["b"])
    assert len(b.remoting.calls) == 1


@in_virtual_time
async def test_a_broker_without_a_route_is_not_asked_any_more() -> None:
    b = Health()
    b.remoting.scripts["b"] = refuse_connection
    b.health.failed("b", RemotingClosed("killed"))
    await asyncio.sleep(1.5)
    b.health.retain(["c"])
    asked = len(b.remoting.calls)
    await asyncio.sleep(10.0)
    assert len(b.remoting.calls) == asked
    assert b.health.is_answering("b")


@in_virtual_time
async def test_nothing_is_asked_after_stop() -> None:
    b = Health()
    await b.health.stop()
    b.health.failed("b", RemotingClosed("we closed it"))
    b.health.ping("b")
    assert b.remoting.calls == []
