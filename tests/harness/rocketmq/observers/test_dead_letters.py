"""Retry and dead-letter topics: read at the end, once for each group; refusals are in the history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from staticfire.checkers.model.history import Op
from staticfire.harness.campaign.campaign import topology_of
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.environments.environment import Environment
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.rocketmq.observers.dead_letters import TRIES, DeadLetters
from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.workloads.consumer_spec import ConsumerSpec

SPEC = ConsumerSpec(group="g", topic="T", sends_back=True)
LETTER = ["k", 0, 100, True, 3]


class Brokers:
    """An environment whose admin client answers as a test says, by topic."""

    def __init__(self, world: World, answers: Mapping[str, Outcome]) -> None:
        self.topology = topology_of(1, (0,), 1, 1)
        self.recorder = Recorder(lambda: world.now_ns)
        self.asked: list[Request] = []
        self._answers = answers

    def is_lost(self, node: str) -> bool:
        return False

    def server_address(self, node: str) -> str:
        return f"{node}:10911"

    async def request(self, node: str, request: Request) -> Outcome:
        self.asked.append(request)
        return self._answers.get(request["topic"], Outcome("ok", {"messages": []}))


def read(**answers: Outcome) -> tuple[Brokers, list[Op]]:
    world = World(1)
    by_topic = {f"%{name}%g": answer for name, answer in answers.items()}
    brokers = Brokers(world, by_topic)

    async def main() -> None:
        letters = DeadLetters(cast(Environment, brokers))
        await letters.read(SPEC)
        await letters.read(SPEC)

    world.run(main)
    return brokers, brokers.recorder.ops


def reported_of(ops: list[Op]) -> list[tuple[Any, ...]]:
    return [(op.f, op.type, op.value["topic"], op.error) for op in ops]


def test_dead_letters_are_consumed_by_their_group_once() -> None:
    brokers, ops = read(DLQ=Outcome("ok", {"messages": [LETTER]}))

    assert reported_of(ops) == [
        ("try_read", "ok", "%RETRY%g", None),
        ("try_read", "ok", "%DLQ%g", None),
        ("consume", "ok", "%DLQ%g", None),
    ]
    assert ops[-1].value["messages"] == [LETTER]
    assert [request.get("limit") for request in brokers.asked] == [1, None]


@pytest.mark.parametrize("name", ["RETRY", "DLQ"])
def test_a_refusal_is_tried_again_and_reported(name: str) -> None:
    refusal = "code 16, pulling is forbidden"
    brokers, ops = read(**{name: Outcome("ok", {"messages": [], "refusal": refusal})})

    assert ("try_read", "fail", f"%{name}%g", refusal) in reported_of(ops)
    assert len(brokers.asked) == 1 + TRIES


def test_what_was_read_before_the_refusal_counts() -> None:
    _, ops = read(DLQ=Outcome("ok", {"messages": [LETTER], "refusal": "code 1, busy"}))

    assert [op.f for op in ops] == ["try_read", "try_read", "consume"]


def test_dead_letters_that_were_not_read_to_their_end_are_unknown() -> None:
    brokers, ops = read(DLQ=Outcome("ok", {"messages": [LETTER], "incomplete": "nothing came"}))

    assert reported_of(ops)[1:] == [
        ("try_read", "info", "%DLQ%g", "nothing came"),
        ("consume", "ok", "%DLQ%g", None),
    ]
    assert len(brokers.asked) == 2


def test_of_retries_only_the_first_one_is_asked_for() -> None:
    _, ops = read(RETRY=Outcome("ok", {"messages": [], "incomplete": "nothing came"}))

    assert reported_of(ops)[0] == ("try_read", "ok", "%RETRY%g", None)


def test_no_answer_is_unknown() -> None:
    _, ops = read(DLQ=Outcome("info", {}, "RemotingTimeout"))

    assert ("try_read", "info", "%DLQ%g", "RemotingTimeout") in reported_of(ops)
