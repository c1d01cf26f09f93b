"""Route changes during the run: planted wrong answers of name servers, and near misses."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.verdicts.compose import check_run
from tests.support import reference_route_changes
from tests.support.history_language import facts, fault, queues_confirmed
from tests.support.route_change_histories import route_change_history

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "60")))
PAIR = {"b": ("n0", "n1")}
WHOLE = {"0": "n0", "1": "n1"}
OLD, NEW, READS = [4, 4, 6], [8, 8, 6], [4, 4, 4]
Step = tuple[Any, ...]


def seen(at_s: float, kind: str, **fields: Any) -> dict[str, Any]:
    return {"time_ns": int(at_s * 1e9), "kind": kind, **fields}


def route(
    at_s: float, queues: list[int] | None, named: dict[str, str] = WHOLE, life: int = 1
) -> dict[str, Any]:
    topics = {} if queues is None else {"t": queues}
    said = {"broker_name": "b", "addresses": named, "topics": topics}
    return seen(at_s, "route_table", node="ns-1", life=life, **said)


def table(at_s: float, queues: list[int] | None) -> dict[str, Any]:
    topics = {} if queues is None else {"t": queues}
    return seen(at_s, "topic_table", node="n0", broker_name="b", topics=topics)


def life(at_s: float, node: str, ended: str | None = None, number: int = 1) -> dict[str, Any]:
    return seen(at_s, "server_life", node=node, life=number, ended=ended)


def removal(at_s: float, node: str = "ns-1", topic: str = "t") -> dict[str, Any]:
    return seen(at_s, "topic_removal", node=node, topic=topic)


AWAY = (table(0, OLD), route(0, OLD))
GONE = (*AWAY, table(50, None), removal(52))
ALIVE = tuple(life(0, node) for node in ("ns-1", "n0", "n1"))
END = seen(300, "events")


def verdicts(*observations: dict[str, Any], **changes: Any) -> list[Verdict]:
    observed = {"routes_observed": True, "topic_routes_observed": True}
    known = {"replica_sets": PAIR, "route_changes_observed": True, **observed, **changes}
    names = ("routes", "route_contents")
    return [
        of for of in check_run([], observations, facts(**known)).verdicts if of.checker in names
    ]


def found(*observations: dict[str, Any], faults: tuple[FaultFacts, ...] = ()) -> list[Finding]:
    given_verdicts = verdicts(*ALIVE, *observations, END, faults=faults)
    return list(chain.from_iterable(of.findings for of in given_verdicts))


@pytest.mark.parametrize(
    ("observations", "words"),
    [
        ((table(0, OLD), route(0, OLD)), ""),
        # a registration takes a while, and one may be lost
        ((table(0, OLD), route(0, OLD), table(50, NEW), route(56, NEW)), ""),
        ((table(0, OLD), route(0, OLD), table(50, NEW), route(57, NEW)), "for 7.000s not what the leader has: 4 read"),
        ((table(0, OLD), route(0, OLD), table(50, NEW)), "for 250.000s not what the leader has: 4 read"),
        ((table(0, OLD), route(5, None), route(8, OLD)), ""),
        ((table(0, OLD), route(5, None), route(12, OLD)), "for 7.000s not what the leader has: no such topic"),
        # the leader has one change after the other, and the name server hears of each a little later
        ((table(0, OLD), route(0, OLD), table(50, NEW), table(51, READS), route(52, NEW), route(53, READS)), ""),
        ((table(0, OLD), route(0, OLD), table(50, NEW), table(51, OLD), route(52, NEW), route(53, OLD)), ""),
        # it goes back, if only for a moment
        ((table(0, OLD), route(0, OLD), table(50, NEW), route(50.1, NEW), route(52, OLD), route(52.01, NEW)),
         "says 4 read queues, 4 write queues, permission 6, which the leader had before"),
        ((table(0, OLD), route(0, OLD), table(50, NEW), route(50.1, NEW), route(52, READS), route(52.01, NEW)),
         "says 4 read queues, 4 write queues, permission 4, which the leader never had"),
        ((table(0, OLD), route(0, OLD), route(52, None), route(52.01, OLD)), "says no such topic, which"),
        # an administrator removes the topic on the leader, and then at the name server
        ((*GONE, route(52, None), table(60, OLD), route(66, OLD)), ""),
        ((*GONE, route(52, None), table(60, OLD), route(67, OLD)), "for 7.000s not what the leader has: no such topic"),
        ((*GONE, route(52, None), table(60, OLD)), "for 240.000s not what the leader has: no such topic, not 4"),
        ((*GONE, route(58, None)), ""),
        ((*GONE, route(59, None)), "for 7.000s not what the leader has: 4 read"),
        ((*GONE, route(52, None), route(70, OLD)), "for 230.000s not what the leader has: 4 read"),
        ((*GONE, route(52, None), route(70, OLD), route(76, None)), ""),
        ((*GONE, route(52, None), route(70, OLD), table(75, OLD)), ""),
        # ... and the leader deletes it once more: the route may keep it
        ((*GONE, route(52, None), table(60, OLD), route(61, OLD), table(70, None)), ""),
        # another topic, or at another name server
        ((*AWAY, table(50, None), removal(52, topic="u")), ""),
        ((*AWAY, table(50, None), removal(52, node="ns-2")), ""),
        # a removal excuses no name server that lacks what the leader has
        ((*AWAY, removal(50), route(50.1, None), route(50.2, OLD)), "says no such topic, which"),
        ((*AWAY, removal(50), route(50.1, None)), "says no such topic, which"),
        ((table(0, OLD), route(2, None), removal(2)), "for 298.000s not what the leader has: no such topic"),
        # the leader went back itself
        ((table(0, OLD), route(0, OLD), table(50, NEW), route(50.1, NEW), table(80, OLD), route(81, OLD)), ""),
        # a topic was deleted on the leader, and made anew; the route may keep it
        ((table(0, OLD), route(0, OLD), table(50, None), route(51, None), table(60, OLD), route(61, OLD)), ""),
        ((table(0, OLD), route(0, OLD), table(50, None)), ""),
        # another process of the name server has yet to hear of everything
        ((table(0, NEW), route(0, NEW), life(40, "ns-1", "killed"), life(41, "ns-1", None, 2), route(42, None, life=2),
          route(43, NEW, life=2)), ""),
        # without its leader, a replica set has what a slave says
        ((table(0, NEW), route(0, NEW), route(40, READS, {"1": "n1"}), route(90, NEW)), ""),
        ((table(0, NEW), route(0, NEW), route(40, READS)), "says 4 read queues, 4 write queues, permission 4"),
    ],
)  # fmt: skip
def test_a_route_says_of_a_topic_what_the_master_says(
    observations: tuple[dict[str, Any], ...], words: str
) -> None:
    findings = found(*observations)

    assert [of.anomaly for of in findings] == ["route_drift"] * bool(words)
    assert all(of.detail.startswith(f"ns-1: {words}") for of in findings)
    assert all((of.topic, of.broker) == ("t", "b") for of in findings)


@pytest.mark.parametrize(
    ("back", "drifts"),
    [
        ((), 0),
        ((life(90, "n0", None, 2), route(93, NEW)), 0),
        ((life(90, "n0", None, 2), route(95, NEW)), 1),  # 2 s before it ended, 5 s since it is back
    ],
)
def test_a_master_that_has_ended_registers_when_it_is_back(
    back: tuple[dict[str, Any], ...], drifts: int
) -> None:
    ended = life(52, "n0", "killed")
    findings = found(table(0, OLD), route(0, OLD), table(50, NEW), ended, *back)

    assert sum(of.anomaly == "route_drift" for of in findings) == drifts


CONFIRMED = queues_confirmed(8, at_s=50)
LOST = fault("disk_lost", "n0", at_s=54, healed_s=56)


@pytest.mark.parametrize(
    ("faults", "observations", "words"),
    [
        ((), AWAY, ""),
        ((CONFIRMED,), AWAY, "for 250.000s not what the leader has confirmed: 4 read queues, 4 write queues"),
        ((CONFIRMED,), (*AWAY, table(50, NEW)), "for 250.000s not what the leader has: 4 read"),
        ((CONFIRMED,), (*AWAY, table(50, NEW), route(56, NEW)), ""),
        ((CONFIRMED,), (*AWAY, table(50, NEW), route(57, NEW)), "for 7.000s not what the leader has: 4 read"),
        # the leader had more, and says later that it has less
        ((CONFIRMED,), (*AWAY, table(50, NEW), route(51, NEW), table(80, OLD), route(81, OLD)),
         "for 219.000s not what the leader has confirmed: 4 read"),
        ((queues_confirmed(4, at_s=50),), AWAY, ""),
        ((queues_confirmed(8, at_s=295),), AWAY, ""),
        ((queues_confirmed(8, at_s=50, stream="c"),), AWAY, ""),
        # one change after the other
        ((queues_confirmed(6, at_s=40), CONFIRMED), (*AWAY, table(40, [6, 6, 6]), route(41, [6, 6, 6])),
         "for 250.000s not what the leader has confirmed: 6 read"),
        # an emptied disk has the table of a follower: not one that was emptied before, nor the disk of another server
        ((CONFIRMED, LOST), AWAY, ""),
        ((CONFIRMED, fault("disk_lost", "n0", at_s=58, healed_s=60)), AWAY, "for 8.000s"),
        ((CONFIRMED, fault("disk_lost", "n0", at_s=40, healed_s=42)), AWAY, "for 250.000s"),
        ((CONFIRMED, fault("wiped_slave", "n1", at_s=54, healed_s=56)), AWAY, "for 250.000s"),
        ((CONFIRMED, replace(LOST, bitten_ns=None)), AWAY, "for 250.000s"),
        ((CONFIRMED, LOST, queues_confirmed(8, at_s=70)), AWAY, "for 230.000s"),
        # a table is fsynced
        ((CONFIRMED, fault("power_cut", "n0", at_s=54, healed_s=56)), AWAY, "for 242.000s"),
        ((CONFIRMED, fault("kill", "n0", at_s=54, healed_s=56)), AWAY, "for 242.000s"),
        # the leader could not register
        ((CONFIRMED, fault("partition", "n0", at_s=52, healed_s=290)), AWAY, ""),
        ((CONFIRMED, fault("name_server_freeze", "ns-1", at_s=52, healed_s=290)), AWAY, ""),
        ((CONFIRMED, fault("name_server_freeze", "ns-2", at_s=52, healed_s=290)), AWAY, "for 250.000s"),
    ],
)  # fmt: skip
def test_a_leader_has_the_queues_that_it_has_confirmed(
    faults: tuple[FaultFacts, ...], observations: tuple[dict[str, Any], ...], words: str
) -> None:
    findings = found(*observations, faults=faults)

    assert [of.anomaly for of in findings] == ["route_drift"] * bool(words)
    assert all(of.detail.startswith(f"ns-1: {words}") for of in findings)


MASTER_ONLY = {"0": "n0"}


@pytest.mark.parametrize(
    ("observations", "words"),
    [
        ((life(50, "n1", "terminated"), route(50.1, OLD, MASTER_ONLY)), ""),
        ((life(50, "n1", "killed"), route(56, OLD, MASTER_ONLY)), ""),
        ((life(50, "n1", "killed"), route(57, OLD, MASTER_ONLY)), "n1: ns-1 named it for 7.000s after its process"),
        ((life(50, "n1", "terminated"), route(57, OLD, MASTER_ONLY)), "n1: ns-1 named it for 7.000s"),
        # it is back, before the name server has forgotten it
        ((life(50, "n1", "killed"), life(55, "n1", None, 2)), ""),
        # no packet says that its power is gone
        ((life(50, "n1", "power cut"), route(185, OLD, MASTER_ONLY)), ""),
        ((life(50, "n1", "power cut"), route(186, OLD, MASTER_ONLY)), "n1: ns-1 named it for 136.000s"),
        # named again, long after its end
        ((life(50, "n1", "killed"), route(51, OLD, MASTER_ONLY), route(90, OLD), route(97, OLD, MASTER_ONLY)),
         "n1: ns-1 named it for 7.000s"),
        ((life(50, "n1", "power cut"), route(180, OLD, MASTER_ONLY), route(190, OLD), route(197, OLD, MASTER_ONLY)),
         "n1: ns-1 named it for 7.000s"),
        # the name server ended, too
        ((life(50, "n1", "killed"), life(53, "ns-1", "killed")), ""),
    ],
)  # fmt: skip
def test_a_route_does_not_name_who_has_left(
    observations: tuple[dict[str, Any], ...], words: str
) -> None:
    findings = found(*AWAY, *observations)

    assert [of.anomaly for of in findings] == ["departed_route"] * bool(words)
    assert all(of.detail.startswith(words) for of in findings)


@pytest.mark.parametrize(
    ("routed", "listed", "words"),
    [
        (None, WHOLE, ""),
        (WHOLE, WHOLE, ""),
        (MASTER_ONLY, WHOLE, "ns-1: its routes name n0 as 0, its list of the cluster n0 as 0, n1 as 1"),
        (WHOLE, MASTER_ONLY, "ns-1: its routes name n0 as 0, n1 as 1, its list of the cluster n0 as 0"),
        (WHOLE, {}, "ns-1: its routes name n0 as 0, n1 as 1, its list of the cluster nothing"),
    ],
)  # fmt: skip
def test_routes_and_the_list_of_the_cluster_name_the_same_brokers(
    routed: dict[str, str] | None, listed: dict[str, str], words: str
) -> None:
    unlike = route(50, OLD, listed)
    said = unlike if routed is None else {**unlike, "routed": routed}
    again = {**said, "time_ns": said["time_ns"] + 10**9}
    struck = fault("pause", "ns-1", at_s=40, healed_s=70)
    findings = found(*AWAY, said, again, route(51.5, OLD), faults=(struck,))

    assert [of.anomaly for of in findings] == ["missing_route"] * bool(words)
    assert all((of.detail, of.broker) == (words, "b") for of in findings)


LATE = (table(0, OLD), route(0, OLD), table(50, NEW), route(80, NEW))
BACK = (table(0, OLD), route(0, OLD), table(50, NEW), route(51, NEW), route(60, OLD), route(61, NEW))  # fmt: skip
STAYS = (*AWAY, life(50, "n1", "killed"), route(80, OLD, MASTER_ONLY))


@pytest.mark.parametrize(
    ("struck", "observations", "anomalies"),
    [
        (fault("pause", "n0", at_s=52, healed_s=70), LATE, []),
        (fault("pause", "n1", at_s=52, healed_s=70), LATE, ["route_drift"]),
        (fault("pause", "n0", at_s=60, healed_s=62), LATE, ["route_drift"]),
        (fault("partition", "n0", at_s=52, healed_s=70), LATE, []),
        # no fault makes a name server go back
        (fault("pause", "ns-1", at_s=40, healed_s=70), BACK, ["route_drift"]),
        (fault("name_server_freeze", "ns-1", at_s=40, healed_s=49), STAYS, []),
        (fault("name_server_freeze", "ns-2", at_s=40, healed_s=49), STAYS, ["departed_route"]),
        (fault("partition", "n1", at_s=40, healed_s=52), STAYS, []),
        (fault("partition", "n1", at_s=30, healed_s=40), STAYS, ["departed_route"]),
        (fault("partition", "n1", at_s=60, healed_s=70), STAYS, ["departed_route"]),
    ],
)
def test_faults_that_keep_servers_from_hearing_each_other_give_time(
    struck: FaultFacts, observations: tuple[dict[str, Any], ...], anomalies: list[str]
) -> None:
    assert [of.anomaly for of in found(*observations, faults=(struck,))] == anomalies


SECOND_SET = {**PAIR, "c": ("n2", "n3")}
CHANGES = "not observed: route changes of"


@pytest.mark.parametrize(
    ("left_out", "known", "reason"),
    [
        ("", {}, "not observed"),  # what the name servers answered, which these runs do not have
        ("server_life", {}, f"{CHANGES} n0, ns-1"),
        ("route_table", {}, f"{CHANGES} ns-1"),
        ("topic_table", {}, f"{CHANGES} n0"),
        ("", {"coordinators": ("ns-1", "ns-2")}, f"{CHANGES} ns-2"),
        ("", {"replica_sets": SECOND_SET}, f"{CHANGES} n2"),
    ],
)
def test_a_server_of_which_nothing_was_written_down_is_named(
    left_out: str, known: dict[str, Any], reason: str
) -> None:
    left = [of for of in (*ALIVE, *AWAY) if of["kind"] != left_out]
    judged = verdicts(*left, **{"coordinators": ("ns-1",), **known})

    assert {(of.valid, of.reason) for of in judged} == {("unknown", reason)}


def test_in_rounds_a_registration_that_failed_waits_for_the_next_one() -> None:
    given_verdicts = verdicts(*ALIVE, *LATE, END, mode="faithful")

    assert not any(of.findings for of in given_verdicts)


@pytest.mark.slow
@STEADY
@given(st.integers(0, 2**32))
def test_random_changes(seed: int) -> None:
    run = route_change_history(seed)
    expected = reference_route_changes.wrong_routes(run.observations, run.facts, run.faults)
    judged = verdicts(*run.observations, faults=run.faults, **run.facts)

    counted = Counter(anomaly for anomaly, *_ in expected)
    for anomaly in ("route_drift", "departed_route"):
        assert sum(of.counts.get(anomaly, 0) for of in judged) == counted[anomaly]
    shown = Counter(_as_wrong(finding) for of in judged for finding in of.findings)
    assert shown <= Counter(expected)


def _as_wrong(of: Finding) -> reference_route_changes.Wrong:
    words = of.detail.split(":")
    server = words[0] if of.anomaly == "route_drift" else words[1].split()[0]
    return of.anomaly, server, of.broker or "", of.topic, of.time_ns // 10**9


def test_every_wrong_occurs() -> None:
    """Or the histories would prove nothing."""
    counted: Counter[str] = Counter()
    for seed in range(12):
        run = route_change_history(seed)
        wrongs = reference_route_changes.wrong_routes(run.observations, run.facts, run.faults)
        counted.update(anomaly for anomaly, *_ in wrongs)
        counted["none"] += not wrongs
    assert set(counted) >= {"route_drift", "departed_route"}
