"""Topics beside the load: the brokers that have them, and their ops in the history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from staticfire.harness.clients.names import ADMIN
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.environment import Environment
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.rocketmq.administration.side_topics import MESSAGES, QUEUES, SideTopic
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.protocol.codes import RequestCode

CAMPAIGN = draw_campaign(1, {"followers": (0, 0), "replication": "none", "coordinators": 1})
SENT = Outcome("ok", {"status": "SEND_OK", "queue": 0, "queue_offset": 7, "physical_offset": 1})
MISSING = Outcome("info", {}, "no answer")
Act = Callable[[SideTopic], Awaitable[dict[str, Any]]]


class Cluster:
    """Two brokers that do what they are asked; `refused` requests are not answered."""

    campaign = CAMPAIGN
    topology = CAMPAIGN.topology()

    def __init__(self, world: World, refused: tuple[str, str] | None) -> None:
        self.launch_specs: list[tuple[str, str]] = []
        self.committed = 3
        self.high = 3
        self.read_at: list[int] = []
        self._refused = refused
        self._world = world
        self.recorder = Recorder(lambda: world.now_ns)

    def is_lost(self, node: str) -> bool:
        return False

    def server_address(self, node: str) -> str:
        return node

    async def ready(self, node: str) -> None:
        """The producer always runs."""

    async def request(self, node: str, request: Request) -> Outcome:
        what = RequestCode(request["code"]).name if "code" in request else request["f"]
        where = request["address"] if node == ADMIN else request["broker"]
        self.launch_specs.append((what, where))
        if (what, where) == self._refused:
            return MISSING
        if what == "queue_state":
            return Outcome(
                "ok", {"queues": [[q, 0, self.high, self.committed] for q in range(QUEUES)]}
            )
        if what == "read_queue":
            self.read_at.append(request["offset"])
            row = ["side", request["offset"], 1, True, 0]
            return Outcome("ok", {"messages": [row] if request["offset"] == 3 else []})
        return SENT if what == "send" else Outcome("ok", {"brokers": {"broker-a": {}}})


def made_anew(
    refused: tuple[str, str] | None = None, act: Act = SideTopic.make_anew
) -> tuple[Cluster, dict[str, Any]]:
    world = World(1)
    cluster = Cluster(world, refused)
    found: list[dict[str, Any]] = []

    async def main() -> None:
        side = SideTopic(cast(Environment, cluster), 4, 0)
        found.append(await act(side))

    world.run(main)
    return cluster, found[0]


def test_former_sends_are_in_no_history_and_the_others_are() -> None:
    cluster, evidence = made_anew()
    assert evidence["bitten"]
    assert evidence["brokers"] == ["broker-a", "broker-b"]
    assert evidence["former"] == 2 * MESSAGES
    sends = [op.value["key"] for op in cluster.recorder.ops if op.type == "ok"]
    assert len(sends) == 2 * MESSAGES
    assert all(key.startswith("side-4-") for key in sends)


def test_the_topic_is_deleted_between_the_former_sends_and_the_others() -> None:
    cluster, _ = made_anew()
    of_one = [what for what, where in cluster.launch_specs if where in ("broker-a", "broker-a-0")]
    deleted = of_one.index("DELETE_TOPIC_IN_BROKER")
    assert of_one[:deleted].count("send") == of_one[deleted:].count("send") == MESSAGES
    assert "create_topic" in of_one[deleted:]
    assert ("DELETE_TOPIC_IN_NAMESRV", "ns-1") in cluster.launch_specs


def steps(cluster: Cluster, node: str) -> list[str]:
    """The steps of the administrator on a node and its first queue, as explanations show them."""
    return [
        seen["step"]
        for seen in cluster.recorder.observations
        if seen["kind"] == "administration" and seen["node"] == node and seen["queue"] in (None, 0)
    ]


def test_the_steps_on_a_broker_are_observed() -> None:
    cluster, _ = made_anew(("CLONE_GROUP_OFFSET", "broker-b-0"), SideTopic.clone_offsets)
    group = "staticfire-group-side-4"
    at_3 = "at offset 3, or no offset and a queue that begins there"
    begin = ["confirms the topic", f"confirms the group {group}", f"has {group} {at_3}"]
    before = [*begin, f"confirms offset 4 for {group}"]
    assert steps(cluster, "broker-b-0") == before
    assert steps(cluster, "broker-a-0")[4:] == [
        f"confirms that {group}-clone has the offsets of {group}",
        f"has {group}-clone {at_3}",
        f"from now on the history has the clone as {group}, and the source as {group}-again",
    ]

    cluster, _ = made_anew()
    assert steps(cluster, "broker-a-0") == [
        *begin[:2],
        f"confirms offset 1 for {group}",
        "confirms the deletion of the topic",
        f"confirms the deletion of the group {group} with its offsets",
        *begin,
    ]


def places(cluster: Cluster, what: str) -> list[int]:
    return [at for at, (did, _) in enumerate(cluster.launch_specs) if did == what]


def test_all_masters_delete_the_topic_before_a_name_server_and_make_it_anew_after() -> None:
    cluster, _ = made_anew()
    on_masters = places(cluster, "DELETE_TOPIC_IN_BROKER")
    at_servers = places(cluster, "DELETE_TOPIC_IN_NAMESRV")
    made = places(cluster, "create_topic")

    assert [len(on_masters), len(at_servers), len(made)] == [2, 1, 4]
    assert max(made[:2]) < min(on_masters) < max(on_masters) < at_servers[0] < made[2]
    removed = [seen for seen in cluster.recorder.observations if seen["kind"] == "topic_removal"]
    assert [(seen["node"], seen["topic"]) for seen in removed] == [
        ("ns-1", "StaticfireTopic-side-4")
    ]


def test_a_name_server_is_not_asked_while_a_master_may_have_the_topic() -> None:
    cluster, evidence = made_anew(("DELETE_TOPIC_IN_BROKER", "broker-b-0"))

    assert evidence["brokers"] == ["broker-a"]
    assert not places(cluster, "DELETE_TOPIC_IN_NAMESRV")


def test_a_topic_is_not_made_anew_while_a_name_server_may_still_remove_it() -> None:
    cluster, evidence = made_anew(("DELETE_TOPIC_IN_NAMESRV", "ns-1"))

    assert not evidence["bitten"]
    assert len(places(cluster, "create_topic")) == 2
    assert len(places(cluster, "DELETE_TOPIC_IN_NAMESRV")) == 1  # a second one might come late
    assert not any(seen["kind"] == "topic_removal" for seen in cluster.recorder.observations)


@pytest.mark.parametrize("what", ["create_topic", "DELETE_SUBSCRIPTIONGROUP", "queue_state"])
def test_a_broker_that_does_not_answer_takes_no_part(what: str) -> None:
    cluster, evidence = made_anew((what, "broker-b-0"))
    assert evidence["brokers"] == ["broker-a"]
    assert {op.value["broker"] for op in cluster.recorder.ops} == {"broker-a"}


def test_a_broker_of_which_it_is_not_known_what_it_holds_takes_no_part() -> None:
    _, evidence = made_anew(("send", "broker-b"))
    assert evidence["brokers"] == ["broker-a"]


def test_offsets_are_cloned_where_the_group_has_consumed() -> None:
    cluster, evidence = made_anew(act=SideTopic.clone_offsets)
    assert evidence["cloned"] == 2 * QUEUES
    assert evidence["bitten"]
    of_one = [what for what, where in cluster.launch_specs if where in ("broker-a", "broker-a-0")]
    cloned = of_one.index("CLONE_GROUP_OFFSET")
    assert of_one[cloned - QUEUES : cloned] == ["UPDATE_CONSUMER_OFFSET"] * QUEUES
    assert of_one[:cloned].count("send") == of_one[cloned:].count("send") == MESSAGES


@pytest.mark.parametrize("what", ["CLONE_GROUP_OFFSET", "UPDATE_CONSUMER_OFFSET"])
def test_a_clone_that_is_not_sure_is_not_used(what: str) -> None:
    cluster, evidence = made_anew((what, "broker-b-0"), SideTopic.clone_offsets)
    assert evidence["brokers"] == ["broker-a", "broker-b"]
    assert evidence["cloned"] == QUEUES
    assert cluster.launch_specs.count((what, "broker-b-0")) == 1


@pytest.mark.parametrize(
    ("at_drain", "goes_on_at"),
    [
        (4, 4),
        (6, 6),  # a broker for which the source and its clone are one group
        (3, 4),  # a crash made the broker forget what the source had committed
    ],
)
def test_the_source_of_a_clone_reads_on_at_its_own_offset(at_drain: int, goes_on_at: int) -> None:
    world = World(1)
    cluster = Cluster(world, None)
    cluster.high = 7
    side = SideTopic(cast(Environment, cluster), 4, 0)

    async def main() -> None:
        await side.clone_offsets()
        await side.go_on()
        cluster.committed = at_drain
        await side.drain()

    world.run(main)
    assert cluster.read_at[-2 * QUEUES :] == [goes_on_at] * 2 * QUEUES
