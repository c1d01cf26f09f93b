"""When a name server forgets brokers: connections that end, silence, pauses of its own."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.name_server import name_server
from staticfire.system_under_test.name_server.pause_guard import GRACE_NS
from staticfire.system_under_test.protocol.codes import ResponseCode
from tests.system_under_test.name_server.hand_driven import (
    SECOND_NS,
    Node,
    connection,
)


def test_a_broker_goes_with_its_connection(node: Node) -> None:
    node.register("T", key=7)
    node.server.connection_closed(connection(8))
    assert node.route_code() == ResponseCode.SUCCESS
    node.server.connection_closed(connection(7))
    assert node.route_code() == ResponseCode.TOPIC_NOT_EXIST


def test_many_brokers_of_a_connection_go_in_several_turns(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_server, "FORGOTTEN_A_TURN", 1)
    node.register("T", key=7)
    node.register("T", key=7, broker_id=1)

    async def close() -> list[int]:
        node.server.connection_closed(connection(7))
        left = [node.route_code()]
        for _ in range(2):
            await asyncio.sleep(0)
            left.append(node.route_code())
        return left

    assert asyncio.run(close()) == [0, 17, 17]  # the slave alone, and neither


def test_a_silent_broker_goes_after_120_to_130_seconds(node: Node) -> None:
    node.register("T")
    node.run(120)
    assert node.route_code() == ResponseCode.SUCCESS
    node.run(10.5)
    assert node.route_code() == ResponseCode.TOPIC_NOT_EXIST


def test_after_a_pause_no_broker_is_removed_for_one_registration_period(node: Node) -> None:
    node.register("T", key=7)
    node.run(1)
    node.clock.now_ns += 182 * SECOND_NS  # SIGSTOP; the broker closed its connection meanwhile
    node.server.connection_closed(connection(7))
    assert node.route_code() == ResponseCode.SUCCESS
    node.run(GRACE_NS / SECOND_NS - 1)
    assert node.route_code() == ResponseCode.SUCCESS
    node.run(12)
    assert node.route_code() == ResponseCode.TOPIC_NOT_EXIST


def test_after_a_pause_every_broker_is_gone_in_faithful_mode() -> None:
    node = Node(mode=Mode.FAITHFUL)
    node.register("T", key=7)
    node.clock.now_ns += 182 * SECOND_NS
    node.server.note_time()
    assert node.route_code() == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(("mode", "code"), [(Mode.HARDENED, 0), (Mode.FAITHFUL, 17)])
def test_a_wall_clock_that_steps_expires_every_broker_in_faithful_mode(
    mode: Mode, code: int
) -> None:
    node = Node(mode=mode)
    node.register("T")
    node.clock.wall_step_ms = 3_600_000
    node.run(10)
    assert node.route_code() == code


def test_after_a_pause_a_broker_that_registers_again_stays(node: Node) -> None:
    node.register("T", key=7)
    node.clock.now_ns += 182 * SECOND_NS
    node.server.connection_closed(connection(7))
    node.run(29)
    node.register("T", key=8)
    node.run(60)
    assert node.route_code() == ResponseCode.SUCCESS
