"""Queries by key after the drain: the first living node gets all, the others the keys it did not find."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.environment import Environment
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.rocketmq.observers import key_lookup as looking_up
from staticfire.harness.rocketmq.observers.key_lookup import LookUps

CAMPAIGN = draw_campaign(1, {"followers": (2,), "queues": 1, "replication": "sync"})
NODES = ("broker-a-0", "broker-a-1", "broker-a-2")
KEYS = ("a", "b")


class Cluster:
    """Replicas that hold some messages each."""

    campaign = CAMPAIGN
    topology = CAMPAIGN.topology()

    def __init__(self, holds: dict[str, set[str]]) -> None:
        self.holds = holds
        self.recorder = Recorder(lambda: 1)
        self.searched: list[Any] = []
        self.searches = True  # whether it answers searches by time
        self.cleans = False  # whether it deletes everything before the first search by time
        self.answers: list[list[Any]] = []  # of searches by time; then the usual one
        for offset, key in enumerate(KEYS):
            place = {
                "broker": "broker-a",
                "queue": 0,
                "queue_offset": offset,
                "physical_offset": offset,
            }
            value = {"key": key, "topic": CAMPAIGN.topic, "status": "SEND_OK", **place}
            self.recorder.record(1, "ok", "send", value)

    def is_lost(self, node: str) -> bool:
        return node not in self.holds

    def is_external(self, node: str) -> bool:
        return True  # counts of slave reads are not the question here

    def server_address(self, node: str) -> str:
        return node

    async def request(self, node: str, request: Request) -> Outcome:
        if request["f"] == "search_times":
            if not self.searches:
                return Outcome("info", {}, "timeout")
            self.searched.append((request["address"], request["places"]))
            if self.cleans:
                self.holds[request["address"]] = set()
                return Outcome("ok", {"searched": []})
            if self.answers:
                return Outcome("ok", {"searched": [self.answers.pop(0)]})
            return Outcome("ok", {"searched": [["b", 0, 1, 700, 1, 700, 699]]})
        held = self.holds[request["address"]]
        rows = [[*message[:3], *[message[0] in held] * 3] for message in request["messages"]]
        return Outcome("ok", {"messages": rows, "first_offsets": []})


@pytest.mark.parametrize(
    ("holds", "asked"),
    [
        ({"broker-a-0": {"a", "b"}, "broker-a-1": {"a"}}, [("broker-a-0", "ab")]),
        (
            {"broker-a-0": {"a"}, "broker-a-1": {"a", "b"}, "broker-a-2": set()},
            [("broker-a-0", "ab"), ("broker-a-1", "b"), ("broker-a-2", "b")],
        ),
        ({"broker-a-1": set(), "broker-a-2": {"a"}}, [("broker-a-1", "ab"), ("broker-a-2", "ab")]),
    ],
)
def test_who_is_asked_for_what(holds: dict[str, set[str]], asked: list[tuple[str, str]]) -> None:
    cluster = Cluster(holds)
    asyncio.run(LookUps(cast(Environment, cluster)).run())

    ops: list[dict[str, Any]] = [op.value for op in cluster.recorder.ops if op.f == "look_up"]
    assert [(value["node"], "".join(row[0] for row in value["messages"])) for value in ops] == asked
    assert [value["asked"] for value in ops] == [len(keys) for _, keys in asked]
    # Only the first searches by time: the last message of each queue, and one half way.
    assert cluster.searched == [(asked[0][0], [["a", 0, 0], ["b", 0, 1]])]
    assert ["searched" in value for value in ops] == [True, *[False] * (len(ops) - 1)]


def test_a_search_by_time_without_an_answer_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking_up, "POLL_S", 0.0)
    cluster = Cluster({"broker-a-0": set(KEYS)})
    cluster.searches = False
    asyncio.run(LookUps(cast(Environment, cluster)).run())
    [value] = [op.value for op in cluster.recorder.ops if op.f == "look_up"]
    assert ("searched" in value, value["search_error"]) == (False, "timeout")


@pytest.mark.parametrize("failures", [0, 1, looking_up.TRIES])
def test_a_broker_that_fails_at_a_search_is_asked_again(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking_up, "POLL_S", 0.0)
    cluster = Cluster({"broker-a-0": set(KEYS)})
    answers = [Outcome("ok", {"searched": [], "refused": [["b", 0, 1, "code 1"]]})] * failures
    healthy = cluster.request

    async def request(node: str, request: Request) -> Outcome:
        fails = request["f"] == "search_times" and answers
        return answers.pop() if fails else await healthy(node, request)

    monkeypatch.setattr(cluster, "request", request)
    asyncio.run(LookUps(cast(Environment, cluster)).run())
    [value] = [op.value for op in cluster.recorder.ops if op.f == "look_up"]
    assert ("refused" in value) == (failures == looking_up.TRIES)
    assert bool(value["searched"]) != ("refused" in value)


def test_a_message_whose_position_is_not_known_is_not_asked_for_by_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster({"broker-a-0": set(KEYS)})
    place = {"broker": "broker-a", "queue": 0, "queue_offset": 2}
    cluster.recorder.record(1, "ok", "send", {"key": "c", "topic": CAMPAIGN.topic, **place})
    asked: list[Any] = []

    async def request(_node: str, request: Request) -> Outcome:
        asked.extend(request.get("messages", ()))
        return Outcome("ok", {"messages": [], "first_offsets": []})

    monkeypatch.setattr(cluster, "request", request)
    asyncio.run(LookUps(cast(Environment, cluster)).run())
    assert ["c", 0, 2, -1] in asked


def test_after_a_cleaning_between_look_up_and_search_both_are_repeated() -> None:
    cluster = Cluster({"broker-a-0": {"a", "b"}})
    cluster.cleans = True
    asyncio.run(LookUps(cast(Environment, cluster)).run())

    [value] = [op.value for op in cluster.recorder.ops if op.f == "look_up"]
    assert [row[5] for row in value["messages"]] == [False, False]
    assert value["searched"] == []
    assert len(cluster.searched) == 2


@pytest.mark.parametrize(
    ("answer", "again", "asked"),
    [
        (["b", 0, 1, 700, 4, 900, None], 1, 2),  # the queue begins there now
        (["b", 0, 1, 700, 4, 900, None], 9, 5),  # and always did
        (["b", 0, 1, 700, 4, 900, 800], 1, 1),  # what lies before it is there
        (["b", 0, 1, 700, 1, 700, None], 1, 1),  # it was the first
        (["b", 0, 1, 700, 1, None, None], 1, 2),  # all of them are gone
        (["b", 0, 1, 700, 1, None, None], 9, 5),  # and always were: the search leads to nothing
        (["b", 0, 1, 700, 2, None, 700], 1, 1),  # it leads past the last one
    ],
)
def test_a_search_is_repeated_if_a_cleaning_explains_its_answer(
    answer: list[Any], again: int, asked: int
) -> None:
    cluster = Cluster({"broker-a-0": {"a", "b"}})
    cluster.answers = [answer] * again
    asyncio.run(LookUps(cast(Environment, cluster)).run())

    assert len(cluster.searched) == asked
    [value] = [op.value for op in cluster.recorder.ops if op.f == "look_up"]
    assert (value["searched"] == [answer]) is (asked != 2)
