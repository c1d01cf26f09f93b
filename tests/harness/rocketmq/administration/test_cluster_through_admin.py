"""Administration of brokers: requests to each node, and the results of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import methodcaller
from typing import Any, cast

import pytest

from staticfire.faults.model.capabilities import QueueCountAnswers
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.rocketmq.administration.changes import ClusterChanges
from staticfire.harness.rocketmq.administration.cluster_through_admin import ClusterThroughAdmin
from staticfire.harness.rocketmq.administration.side_topics import TRIES
from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.workloads.groups import groups_of
from staticfire.system_under_test.protocol.codes import RequestCode

CAMPAIGN = draw_campaign(1, {"followers": (1, 0), "replication": "sync", "coordinators": 1})
BROKERS = ["broker-a-0", "broker-a-1", "broker-b-0"]
NO_ANSWER = Outcome("info", {}, "no answer")
OPTION = "slaveReadEnable"


class Cluster:
    """Brokers with one option; those that are `silent` answer nothing, those that are `slow` create without answer."""

    campaign = CAMPAIGN
    topology = CAMPAIGN.topology()

    def __init__(self, *silent: str, slow: tuple[str, ...] = ()) -> None:
        self.changes = ClusterChanges(2)
        self.asked: list[tuple[str, str]] = []
        self.counts: list[int] = []
        self.rights: list[str] = []
        self.options = dict.fromkeys(BROKERS, "false")
        self.silent = silent
        self.slow = slow

    def is_lost(self, _node: str) -> bool:
        return False

    def now_ns(self) -> int:
        return len(self.asked)

    def server_address(self, node: str) -> str:
        return node

    async def request(self, _client: str, request: Request) -> Outcome:
        node = request["address"]
        code = RequestCode(request["code"]).name if "code" in request else request["f"]
        self.asked.append((code, node))
        if node in self.silent:
            return NO_ANSWER
        if code == "UPDATE_AND_CREATE_ACL_CONFIG":
            self.rights.append(request["ext"]["defaultTopicPerm"])
        if code == "reset_offsets":
            return Outcome("ok", {"offsets": [[0, 7]]} if request["share"] == 0.5 else {})
        if code == "create_topic":
            self.counts.append(request["queues"])
            if node in self.slow:
                return NO_ANSWER
        if code == "topic_queues":
            return Outcome("ok", {"queues": [self.counts[-1], self.counts[-1], 6]})
        if code == "GET_BROKER_CONFIG":
            return Outcome("ok", {"body": f"{OPTION}={self.options[node]}\n"})
        if code == "UPDATE_BROKER_CONFIG":
            self.options[node] = request["body"].strip().partition("=")[2]
        return Outcome("ok", {"body": ""})


def carried_out(cluster: Cluster, act: Callable[[ClusterThroughAdmin], Any]) -> Any:
    found: list[Any] = []

    async def main() -> None:
        found.append(
            await act(ClusterThroughAdmin(cast(Any, cluster), cast(Any, None), cluster.changes))
        )

    World(1).run(main)
    return found[0]


def test_queues_are_never_taken_away() -> None:
    cluster = Cluster()
    for count in (6, 5):
        answers = carried_out(cluster, methodcaller("set_queue_count", "T", count))
        assert answers.unheard == ()
        assert [one["queues"] for one in answers.confirmed] == [6, 6]
    assert cluster.counts == [6, 6, 6, 6]
    assert cluster.changes.queues_max == 6


def test_a_master_that_does_not_answer_may_have_made_the_queues() -> None:
    cluster = Cluster(*BROKERS)
    answers = carried_out(cluster, lambda admin: admin.set_queue_count("T", 6))
    assert answers == QueueCountAnswers(confirmed=(), unheard=("broker-a-0", "broker-b-0"))
    assert cluster.changes.queues_max == 6


def test_a_master_that_waits_for_name_servers_shows_in_its_table_what_it_did() -> None:
    cluster = Cluster(BROKERS[1], slow=(CAMPAIGN.topology().leaders[0].node,))
    answers = carried_out(cluster, lambda admin: admin.set_queue_count("T", 6))
    first = CAMPAIGN.topology().leaders[0]
    assert len(answers.confirmed) == 2 - len(answers.unheard)
    assert first.node not in answers.unheard
    shown = next(one for one in answers.confirmed if one["stream"] == first.replica_set)
    assert shown["answered_ns"] == len(cluster.asked)  # when its table has shown the queues


def test_only_the_masters_named_are_asked() -> None:
    cluster = Cluster()
    leader = CAMPAIGN.topology().leaders[1]
    answers = carried_out(cluster, lambda admin: admin.set_queue_count("T", 6, [leader.node]))
    one = {"topic": "T", "stream": leader.replica_set, "queues": 6, "answered_ns": 1}
    assert answers == QueueCountAnswers(confirmed=(one,), unheard=())
    assert cluster.counts == [6]


def test_a_reset_is_of_the_masters_that_answered() -> None:
    silent, answering = CAMPAIGN.topology().leaders
    cluster = Cluster(silent.node)
    resets = carried_out(cluster, lambda admin: admin.reset_offsets(CAMPAIGN.topic, 0.5))
    assert {reset["stream"] for reset in resets} == {answering.replica_set}
    assert [reset["group"] for reset in resets] == list(groups_of(CAMPAIGN))
    assert all(reset["offsets"] == [[0, 7]] for reset in resets)
    assert all(reset["asked_ns"] < reset["answered_ns"] for reset in resets)


def test_an_option_changes_on_all_brokers_and_back() -> None:
    cluster = Cluster()
    former = carried_out(cluster, lambda admin: admin.change_option(OPTION, "true"))
    assert former == dict.fromkeys(BROKERS, "false")
    assert cluster.options == dict.fromkeys(BROKERS, "true")
    assert carried_out(cluster, lambda admin: admin.change_option_back(OPTION, former)) == 3
    assert cluster.options == former


def test_a_broker_that_does_not_answer_has_not_changed() -> None:
    cluster = Cluster("broker-a-1")
    former = carried_out(cluster, lambda admin: admin.change_option(OPTION, "true"))
    assert list(former) == ["broker-a-0", "broker-b-0"]


def test_an_option_is_changed_back_as_soon_as_its_broker_answers() -> None:
    cluster = Cluster("broker-a-0")

    async def act(admin: ClusterThroughAdmin) -> int:
        loop = asyncio.get_running_loop()
        loop.call_later(2.0, setattr, cluster, "silent", ())
        return await admin.change_option_back(OPTION, {"broker-a-0": "maybe"})

    assert carried_out(cluster, act) == 1
    assert cluster.options["broker-a-0"] == "maybe"
    assert 1 < len(cluster.asked) < TRIES


@pytest.mark.parametrize(("silent", "accepted"), [((), 3), (("broker-b-0",), 2)])
def test_all_brokers_clean_up(silent: tuple[str, ...], accepted: int) -> None:
    cluster = Cluster(*silent)
    assert carried_out(cluster, lambda admin: admin.clean_up()) == accepted
    codes = ("CLEAN_UNUSED_TOPIC", "CLEAN_EXPIRED_CONSUMEQUEUE")
    assert cluster.asked == [(code, node) for node in BROKERS for code in codes]


def test_a_right_is_known_to_be_withdrawn_once_every_master_has_said_so() -> None:
    cluster = Cluster()
    assert carried_out(cluster, lambda admin: admin.withdraw_right()) == (BROKERS[::2], 0)
    assert cluster.changes.guest_rights.are_withdrawn
    assert carried_out(cluster, lambda admin: admin.give_right_back()) == 2
    assert not cluster.changes.guest_rights.are_withdrawn
    assert cluster.rights == ["DENY", "DENY", "PUB", "PUB"]


def test_a_master_that_does_not_answer_may_still_let_the_guest_send() -> None:
    cluster = Cluster("broker-b-0")
    accepted, unanswered = carried_out(cluster, lambda admin: admin.withdraw_right())
    assert accepted == ["broker-a-0"]
    assert unanswered == TRIES
    assert not cluster.changes.guest_rights.are_withdrawn
