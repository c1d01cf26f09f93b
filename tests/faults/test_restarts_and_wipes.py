"""Rolling restarts, with and without a frozen name server, slaves that come back empty, groups that are sent back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from staticfire.faults.kinds.rolling_restart import ANSWER_BOUND_S
from staticfire.faults.model.capabilities import QueueCountAnswers
from tests.faults.fault_stories import carried_out

S = 1_000_000_000  # nanoseconds of a second


@pytest.mark.parametrize("resets", [[{"group": "g"}, {"group": "h"}], []])
@pytest.mark.parametrize(("params", "share"), [({}, 0.0), ({"share": 0.25}, 0.25)])
def test_groups_are_sent_back_once(
    resets: list[dict[str, str]], params: dict[str, Any], share: float
) -> None:
    script = {"reset_offsets": resets}
    params = {"topic": "Orders", **params}
    calls, evidence = carried_out("offsets-reset", answers=script, params=params)
    assert calls == [f"reset_offsets Orders {share}"]
    assert evidence == {"bitten": bool(resets), "resets": resets}


@pytest.mark.parametrize(
    ("at_fire", "at_heal", "evidence"),
    [
        ((2, ()), None, (True, 2, [])),
        ((0, ()), None, (False, 0, [])),
        ((1, ("b",)), (1, ()), (True, 2, [])),
        ((0, ("a", "b")), (1, ("b",)), (True, 1, ["b"])),
        ((0, ("b",)), (0, ("b",)), (False, 0, ["b"])),
    ],
)
def test_masters_that_did_not_answer_are_asked_for_queues_again(
    at_fire: Any, at_heal: Any, evidence: tuple[bool, int, list[str]]
) -> None:
    answers = [
        QueueCountAnswers(confirmed=({"stream": "a"},) * one[0], unheard=one[1])
        for one in (at_fire, at_heal)
        if one
    ]
    script = {"set_queue_count": lambda *_: answers.pop(0)}
    params = {"topic": "Orders", "queues": 6}
    calls, found = carried_out("topic-change", answers=script, params=params)
    asked_again = [f"set_queue_count Orders 6 {list(at_fire[1])}"] if at_heal else []
    assert calls == ["set_queue_count Orders 6", *asked_again]
    names = ("bitten", "masters_changed", "masters_unheard")
    confirmed = [{"stream": "a"}] * evidence[1]
    assert found == {**dict(zip(names, evidence, strict=True)), "confirmed": confirmed}


@pytest.mark.parametrize(("accepted", "bitten"), [(2, True), (0, False)])
def test_groups_get_other_retry_queues_and_their_former_ones(accepted: int, bitten: bool) -> None:
    script = {"set_retry_queues": accepted}
    calls, evidence = carried_out("group-change", answers=script, params={"retry_queues": 6})
    assert calls == ["set_retry_queues 6", "set_retry_queues 1"]
    assert evidence == {"bitten": bitten, "masters_changed": accepted, "changed_back": accepted}


def test_a_topic_is_made_anew_and_goes_on() -> None:
    script = {"make_topic_anew": {"bitten": True}}
    calls, evidence = carried_out("topic-anew", answers=script)
    assert calls == ["make_topic_anew 0", "go_on_beside 0"]
    assert evidence == {"bitten": True}


def test_offsets_are_cloned_and_the_clone_goes_on() -> None:
    calls, evidence = carried_out("offsets-cloned", answers={"clone_offsets": {"bitten": True}})
    assert calls == ["clone_offsets 0", "go_on_beside 0"]
    assert evidence == {"bitten": True}


def test_an_option_changes_and_changes_back() -> None:
    script = {"change_option": {"a": "true", "b": "true"}, "change_option_back": 1}
    params = {"option": "longPollingEnable=false"}
    calls, evidence = carried_out("options-change", answers=script, params=params)
    former = {"a": "true", "b": "true"}
    assert calls == [
        "change_option longPollingEnable false",
        f"change_option_back longPollingEnable {former}",
    ]
    assert evidence == {"bitten": True, "former": former, "changed_back": 1}


def test_an_option_that_no_broker_took_is_no_bite() -> None:
    script = {"change_option": {}, "change_option_back": 0}
    params = {"option": "longPollingEnable=false"}
    _, evidence = carried_out("options-change", answers=script, params=params)
    assert evidence["bitten"] is False


@pytest.mark.parametrize(("masters", "bitten"), [(["a", "b"], True), ([], False)])
def test_a_right_is_withdrawn_and_given_back(masters: list[str], bitten: bool) -> None:
    script = {"withdraw_right": (masters, 1), "give_right_back": 2}
    calls, evidence = carried_out("rights-change", answers=script)
    assert calls == ["withdraw_right", "give_right_back"]
    assert evidence == {"bitten": bitten, "withdrawn": masters, "unanswered": 1, "given_back": 2}


@pytest.mark.parametrize(("accepted", "bitten"), [(2, True), (0, False)])
def test_brokers_clean_up_twice(accepted: int, bitten: bool) -> None:
    calls, evidence = carried_out("cleaning", answers={"clean_up": accepted})
    assert calls == ["clean_up", "clean_up"]
    assert evidence == {"bitten": bitten, "cleaned": 2 * accepted}


def test_each_broker_is_waited_for_before_the_next_is_stopped() -> None:
    asked: dict[str, int] = {}

    def answers(node: str) -> bool:
        asked[node] = asked.get(node, 0) + 1
        return asked[node] == 2

    calls, evidence = carried_out(
        "rolling-restart", "b", "a", answers={"answers": answers, "stop": True}
    )
    assert calls == [
        *("stop b", "start b", "answers b", "answers b"),
        *("stop a", "start a", "answers a", "answers a"),
    ]
    b, a = evidence.pop("struck")
    assert (b["node"], a["node"]) == ("b", "a")
    assert b["began_ago_ns"] > b["ended_ago_ns"] == a["began_ago_ns"] > a["ended_ago_ns"] == 0
    assert evidence == {"restarted": ["b", "a"], "failed": [], "left_out": [], "bitten": True}


def test_nodes_restart_when_their_name_servers_change_and_change_back() -> None:
    async def restarted(_node: str, _name_servers: list[str]) -> bool:
        await asyncio.sleep(2.0)
        return True

    seen = {"broker_sees": "ns-1", "client_sees": "ns-2"}
    answers = {"set_bootstrap": restarted}

    calls, evidence = carried_out("split-name-servers", "b", "c", answers=answers, params=seen)

    assert calls == [
        *("set_bootstrap b ['ns-1']", "set_bootstrap c ['ns-2']"),
        *("set_bootstrap b []", "set_bootstrap c []"),
    ]
    restarts = [
        {"node": "b", "began_ago_ns": 4 * S, "ended_ago_ns": 2 * S, "affects": ["stops"]},
        {"node": "c", "began_ago_ns": 2 * S, "ended_ago_ns": 0, "affects": ["stops"]},
    ]
    split = [{"node": node, "began_ago_ns": 4 * S, "affects": ["routes"]} for node in ("b", "c")]
    assert evidence == {
        "bitten": True,
        "struck": [*restarts, *split],
        "struck_at_heal": restarts,
    }


def test_a_broker_that_did_not_stop_or_never_answers_again_is_no_bite() -> None:
    script: dict[str, Any] = {"answers": True, "stop": lambda node: node == "b"}
    _, evidence = carried_out("rolling-restart", "b", "a", answers=script)
    assert (evidence["failed"], evidence["bitten"]) == (["a"], False)
    calls, evidence = carried_out(
        "rolling-restart", "b", "a", answers={"answers": False, "stop": True}, duration_s=99.0
    )
    assert evidence["failed"] == ["b", "a"]
    assert calls.count("answers b") > ANSWER_BOUND_S


def test_what_would_take_longer_than_planned_is_left_out() -> None:
    async def stop(_: str) -> bool:
        await asyncio.sleep(4.0)
        return True

    script = {"answers": True, "stop": stop}
    _, evidence = carried_out("rolling-restart", "a", "b", "c", answers=script, duration_s=10.0)
    assert [one["node"] for one in evidence.pop("struck")] == ["a", "b"]
    assert evidence == {
        "restarted": ["a", "b"],
        "failed": [],
        "left_out": ["c"],
        "bitten": True,
    }


def test_the_name_server_is_frozen_before_the_first_broker_and_thawed_after_the_last() -> None:
    kind = "name-server-freeze-in-rolling-restart"
    script = {"answers": lambda node: node != "ns-1", "stop": True, "pause": True}
    calls, evidence = carried_out(kind, "ns-1", "b", answers=script)
    assert calls == [
        *("pause ns-1", "answers ns-1"),
        *("stop b", "start b", "answers b", "resume ns-1"),
    ]
    assert evidence["bitten"] is True
    assert [(one["node"], one["affects"]) for one in evidence["struck"]] == [
        ("ns-1", ["stalls"]),
        ("b", ["stops"]),
    ]
    _, evidence = carried_out(kind, "ns-1", "b", answers={**script, "answers": True})
    assert evidence["bitten"] is False  # it was not frozen at all


def test_a_slave_is_killed_wiped_and_started_again() -> None:
    calls, evidence = carried_out("wiped-slave", "s", answers={"kill": True, "wipe": 4096})
    assert calls == ["kill s", "wipe s", "start s"]
    assert evidence == {"bitten": True, "wiped_bytes": 4096}
    _, evidence = carried_out("wiped-slave", "s", answers={"kill": True, "wipe": 0})
    assert evidence["bitten"] is False


def test_a_disk_fills_up_at_once_or_slowly() -> None:
    counters = {"enospc": 0}
    for params in ({"free_bytes": 7, "over_s": 2.5}, {"free_bytes": 7}):
        calls, _ = carried_out("disk-full", "b", params=params, answers={"counters": counters})
        assert calls[1] == f"fill b 7 {params.get('over_s', 0.0)}"
