"""Answers of name servers: planted wrong routes and near misses; clients that need another name server."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts, Timings
from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import facts, fault, history, queues_confirmed
from tests.support.one_checker import judged_by

PAIR = {"b": ("n0", "n1")}
WHOLE = {"b": {"0": "n0", "1": "n1"}}
MASTER_ONLY = {"b": {"0": "n0"}}


def answer(
    at_s: float, brokers: Any = WHOLE, up: str = "n0 n1", node: str = "ns-1"
) -> dict[str, Any]:
    return {
        "kind": "route",
        "time_ns": int(at_s * 1e9),
        "node": node,
        "brokers": brokers,
        "up": up.split(),
    }


def check(
    name: str, *observations: dict[str, Any], ops: tuple[str, ...] = (), **changes: Any
) -> Verdict:
    known = facts(**{"replica_sets": PAIR, "routes_observed": True, **changes})
    return judged_by(name, history(*ops), observations, known)


def found(verdict: Verdict) -> list[str]:
    return [finding.anomaly for finding in verdict.findings]


@pytest.mark.parametrize(
    ("answers", "anomalies"),
    [
        ((answer(0), answer(500)), []),
        # a dead slave stays in the route
        ((answer(0, up="n0"), answer(140), answer(500)), []),
        ((answer(0, up="n0"), answer(160), answer(500)), ["stale_route"]),
        ((answer(0, up="n0"), answer(160, None, up="n0"), answer(500)), ["stale_route"]),
        ((answer(0, up="n0"), answer(100, None, up="n0"), answer(500, up="n0")), []),
        # a living slave is not named
        ((answer(0, MASTER_ONLY), answer(44), answer(500)), []),
        ((answer(0, MASTER_ONLY), answer(46), answer(500)), ["missing_route"]),
        ((answer(0, MASTER_ONLY, up="n0"), answer(46), answer(500)), []),
        ((answer(0, None), answer(46), answer(500)), []),
        # addresses that are not what they are called
        ((answer(0, {"b": {"0": "n1", "1": "n0"}}), answer(1)), ["wrong_route", "wrong_route"]),
        (
            (answer(0, {"b": {"0": "n0", "1": "10.0.0.9:1"}}), answer(1, {"c": {"0": "n0"}})),
            ["wrong_route"] * 2,
        ),
    ],
)
def test_answers_of_one_name_server(answers: tuple[Any, ...], anomalies: list[str]) -> None:
    verdict = check("routes", *answers)

    assert found(verdict) == anomalies
    assert verdict.valid is not bool(anomalies)


def test_each_name_server_answers_for_itself() -> None:
    verdict = check(
        "routes",
        *(answer(at_s, up="n0") for at_s in (0, 100)),
        *(answer(at_s, up="n0", node="ns-2") for at_s in (50, 210)),
    )

    assert found(verdict) == ["stale_route"]
    assert "ns-2 named it, although it was dead, for 160.000s" in verdict.findings[0].detail


@pytest.mark.parametrize(
    ("struck", "answers", "anomalies"),
    [
        (
            fault("name_server_freeze", "ns-1", at_s=10, healed_s=90),
            (answer(0, up="n0"), answer(200)),
            [],
        ),
        (
            fault("kill", "n1", at_s=0, healed_s=None),
            (answer(0, up="n0"), answer(200)),
            ["stale_route"],
        ),
        (fault("partition", "n1", at_s=10, healed_s=20), (answer(0, MASTER_ONLY), answer(60)), []),
        (
            fault("partition", "n1", at_s=10, healed_s=20),
            (answer(0, MASTER_ONLY), answer(62)),
            ["missing_route"],
        ),
    ],
)
def test_faults_give_time(
    struck: FaultFacts, answers: tuple[Any, ...], anomalies: list[str]
) -> None:
    assert found(check("routes", *answers, faults=(struck,))) == anomalies


DEAD_SLAVE = (answer(0), answer(50, up="n0"), answer(60, MASTER_ONLY, up="n0"))


@pytest.mark.parametrize(
    ("answers", "struck", "anomalies"),
    [
        ((answer(90, up="n0"), answer(97, MASTER_ONLY, up="n0")), None, ["stale_route"]),
        ((answer(90, up="n0"), answer(95, MASTER_ONLY, up="n0")), None, []),
        ((answer(88, None, up="n0"), answer(97, MASTER_ONLY, up="n0")), None, []),
        (
            (answer(80, MASTER_ONLY), answer(90, up="n0"), answer(97, MASTER_ONLY, up="n0")),
            None,
            [],
        ),
        (
            (answer(90, up="n0"), answer(97, MASTER_ONLY, up="n0")),
            fault("kill", "n1", at_s=50, healed_s=70),  # and again before the next question
            [],
        ),
        (
            (answer(90, up="n0"), answer(97, MASTER_ONLY, up="n0")),
            fault("partition", "n1", at_s=80, healed_s=92),
            [],
        ),
    ],
)
def test_a_dead_broker_is_not_named_again(
    answers: tuple[Any, ...], struck: FaultFacts | None, anomalies: list[str]
) -> None:
    faults = () if struck is None else (struck,)
    assert found(check("routes", *DEAD_SLAVE, *answers, faults=faults)) == anomalies


@pytest.mark.parametrize(
    ("answers", "anomalies"),
    [
        ((answer(0, {}), answer(500, {})), []),  # no producer has sent yet
        ((answer(0, {}), answer(60), answer(500)), []),
        ((answer(0), answer(1, {}), answer(500, {})), ["missing_route"] * 2),
        ((answer(0, {}), answer(40, node="ns-2"), answer(80, {}), answer(84)), []),
        ((answer(0, {}), answer(40, node="ns-2"), answer(86, {}), answer(90)), ["missing_route"] * 2),
    ],
)  # fmt: skip
def test_a_topic_that_brokers_make_is_missing_only_where_it_was(
    answers: tuple[Any, ...], anomalies: list[str]
) -> None:
    assert found(check("routes", *answers, topics_everywhere=False)) == anomalies


def test_what_was_not_asked_is_unknown() -> None:
    assert check("routes").valid == "unknown"
    assert check("name_server_switch").valid == "unknown"


FROZEN = fault("name_server_freeze", "ns-1", at_s=10, healed_s=60)
TWO = (answer(0), answer(0, node="ns-2"))


@pytest.mark.parametrize(
    ("faults", "success", "switches", "anomalies"),
    [
        ((FROZEN,), "5 ok assign 0 t=23", 1, []),
        ((FROZEN,), "5 ok assign 0 t=31", 1, ["slow_failover"]),
        ((FROZEN,), "5 ok send a t=31", 1, ["slow_failover"]),
        # its broker is killed before it had had its time, or later
        ((FROZEN, fault("kill", "n0", at_s=29, healed_s=40)), "5 ok assign 0 t=31", 0, []),
        ((FROZEN, fault("kill", "n0", at_s=30.5, healed_s=40)), "5 ok assign 0 t=31", 1, ["slow_failover"]),
        ((FROZEN, fault("kill", "n0", at_s=29, healed_s=40)), "5 ok assign 0 t=28", 1, []),
        ((), "5 ok assign 0 t=31", 0, []),
        ((FROZEN, fault("kill", "n0", at_s=19, healed_s=40)), "5 ok assign 0 t=31", 0, []),
        ((FROZEN, fault("client_crash", "c", at_s=18, healed_s=20)), "5 ok assign 0 t=31", 1, ["slow_failover"]),
        ((FROZEN, fault("name_server_amnesia", "ns-2", at_s=19, healed_s=40)), "5 ok assign 0 t=31", 0, []),
    ],
)  # fmt: skip
def test_a_client_that_starts_while_a_name_server_is_broken(
    faults: tuple[FaultFacts, ...], success: str, switches: int, anomalies: list[str]
) -> None:
    ops = ("5 ok open node=c t=20", success)
    verdict = check("name_server_switch", *TWO, ops=ops, faults=faults)

    assert found(verdict) == anomalies
    assert verdict.counts["switches"] == switches


def contents(route: Any, master: Any = (4, 4, 6), broker: str = "b") -> dict[str, Any]:
    return {
        "kind": "topic_route",
        "time_ns": 0,
        "node": "ns-1",
        "broker_name": broker,
        "topic": "t",
        "route": route,
        "master": master,
    }


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (contents((4, 4, 6)), ""),
        (contents(None, None), ""),
        (contents((4, 4, 2)), "ns-1 says 4 read queues, 4 write queues, permission 2, the leader"),
        (contents((8, 4, 6)), "ns-1 says 8 read queues, 4 write queues, permission 6, the leader"),
        (contents(None), "ns-1 says that there is no such topic, the leader says 4 read queues"),
    ],
)
def test_queues_in_a_route_are_those_of_the_master(seen: dict[str, Any], words: str) -> None:
    verdict = check("route_contents", seen, topic_routes_observed=True)

    assert found(verdict) == (["route_mismatch"] if words else [])
    assert [finding.detail.startswith(words) for finding in verdict.findings] == [True] * bool(
        words
    )
    assert verdict.valid is not bool(words)


CONFIRMED = queues_confirmed(8, at_s=0)
NO_FSYNC = {"timings": Timings(write_back_s=35.0)}


@pytest.mark.parametrize(
    ("seen", "faults", "known", "is_found"),
    [
        (contents((8, 8, 6), (8, 8, 6)), (CONFIRMED,), {}, False),
        (contents((9, 9, 6), (9, 9, 6)), (CONFIRMED,), {}, False),
        (contents((4, 4, 6)), (CONFIRMED,), {}, True),
        (contents((8, 4, 6), (8, 4, 6)), (CONFIRMED,), {}, True),
        (contents((4, 4, 6)), (queues_confirmed(8, at_s=101),), {}, False),
        (contents((4, 4, 6)), (queues_confirmed(8, at_s=0, stream="c"),), {}, False),
        (contents((4, 4, 6)), (CONFIRMED, fault("disk_lost", "n0", at_s=50, healed_s=60)), {}, False),
        (contents((4, 4, 6)), (CONFIRMED, fault("disk_lost", "n1", at_s=50, healed_s=60)), {}, True),
        # tables of topics are fsynced, or not
        (contents((4, 4, 6)), (CONFIRMED, fault("power_cut", "n0", at_s=50, healed_s=60)), {}, True),
        (contents((4, 4, 6)), (CONFIRMED, fault("power_cut", "n0", at_s=50, healed_s=60)), NO_FSYNC, False),
        (contents((4, 4, 6)), (CONFIRMED, fault("power_cut", "n1", at_s=50, healed_s=60)), NO_FSYNC, True),
        (contents((4, 4, 6)), (CONFIRMED, fault("disk_full", "n0", at_s=-5, healed_s=60)), NO_FSYNC, False),
        (contents((4, 4, 6)), (CONFIRMED, fault("disk_full", "n0", at_s=-5, healed_s=-1)), NO_FSYNC, True),
        (contents((4, 4, 6)), (CONFIRMED, fault("kill", "n0", at_s=50, healed_s=60)), NO_FSYNC, True),
    ],
)  # fmt: skip
def test_after_the_run_a_leader_has_the_queues_that_it_has_confirmed(
    seen: dict[str, Any], faults: tuple[FaultFacts, ...], known: dict[str, Any], is_found: bool
) -> None:
    later = {**seen, "time_ns": 100 * 10**9}
    verdict = check("route_contents", later, topic_routes_observed=True, faults=faults, **known)

    assert found(verdict) == ["route_mismatch"] * is_found
    assert all(of.detail.endswith("; it had confirmed 8 of each") for of in verdict.findings)


@pytest.mark.parametrize(
    ("unnamed", "details"),
    [
        ([], []),
        ([("ns-1", "n1", "t")], ["n1: ns-1 did not name it after the drain"]),
        ([("ns-1", "n1", "t"), ("ns-1", "n1", "u")], ["n1: ns-1 did not name it after the drain"]),
        (
            [("ns-1", "n1", "t"), ("ns-2", "n1", "t")],
            [
                "n1: ns-1 did not name it after the drain",
                "n1: ns-2 did not name it after the drain",
            ],
        ),
    ],
)
def test_after_the_drain_no_fault_excuses_a_route_without_a_live_broker(
    unnamed: list[tuple[str, str, str]], details: list[str]
) -> None:
    seen = [
        {**contents((4, 4, 6)), "node": node, "topic": topic, "unnamed": [replica]}
        for node, replica, topic in unnamed
    ]
    struck = fault("partition", "n1", at_s=0, healed_s=None)
    verdict = check("routes", answer(0), contents((4, 4, 6)), *seen, faults=(struck,))

    assert [finding.detail for finding in verdict.findings] == details
    assert set(found(verdict)) <= {"missing_route"}
    assert verdict.valid is not bool(details)


def test_a_living_broker_that_was_not_compared_is_unknown() -> None:
    verdict = check("route_contents", contents((4, 4, 6), broker="c"), topic_routes_observed=True)

    assert (verdict.valid, verdict.reason) == ("unknown", "not observed")
