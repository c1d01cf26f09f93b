"""Findings from inside the nodes: data is durable before it is acknowledged, and slaves are prefixes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts, RottenRecord
from staticfire.checkers.guarantees.verdict import Validity, Verdict
from staticfire.checkers.verdicts.compose import CLIENT_CHECKERS, check_run
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import judged_by

PAIR = {"b": ("n0", "n1")}
SYNC = {"flush": "sync", "replication": "sync"}


def check(
    name: str,
    *observations: dict[str, Any],
    ops: tuple[str, ...] = ("0 ok send a",),
    **changes: object,
) -> Verdict:
    return judged_by(name, history(*ops), observations, facts(**{"replica_sets": PAIR, **changes}))


def ack(
    durable: str = "", cached: str = "", unobserved: str = "", key: str = "a", **changes: object
) -> dict[str, Any]:
    return {
        "time_ns": 1,
        "kind": "ack_durability",
        "key": key,
        "status": "SEND_OK",
        "broker_name": "b",
        "end_offset": 100,
        "durable_on": durable.split(),
        "cached_on": cached.split(),
        "unobserved": unobserved.split(),
        **changes,
    }


def replica(master_end: int, slave_end: int, first_difference: int | None) -> dict[str, Any]:
    return {
        "time_ns": 1,
        "kind": "replica",
        "broker_name": "b",
        "master": "n0",
        "slave": "n1",
        "master_end": master_end,
        "slave_end": slave_end,
        "first_difference": first_difference,
    }


@pytest.mark.parametrize(
    ("flush", "replication", "seen", "valid"),
    [
        ("sync", "none", ack(durable="n0"), True),
        ("sync", "none", ack(cached="n0"), False),
        ("sync", "none", ack(), False),
        ("sync", "async", ack(durable="n0"), True),
        ("sync", "sync", ack(durable="n0 n1"), True),
        ("sync", "sync", ack(durable="n0", cached="n1"), False),
        ("async", "none", ack(cached="n0"), True),
        ("async", "sync", ack(cached="n0 n1"), True),
        ("async", "sync", ack(durable="n0", cached="n1"), True),
        ("async", "sync", ack(cached="n0"), False),
        # a node that the harness could not read may hold it: no violation, and no proof
        ("sync", "sync", ack(durable="n0", unobserved="n1"), "unknown"),
        ("sync", "sync", ack(unobserved="n1"), False),
        # the master that acknowledged is one of them
        ("sync", "async", ack(durable="n1", cached="n0 n1"), False),
        ("async", "none", ack(cached="n1"), False),
        ("sync", "async", ack(durable="n1", unobserved="n0"), "unknown"),
    ],
)
def test_durable_before_ack(flush: str, replication: str, seen: Any, valid: Validity) -> None:
    verdict = check("durable_before_ack", seen, flush=flush, replication=replication)

    assert verdict.valid == valid


@pytest.mark.parametrize(
    ("flush", "at_s", "valid"),
    [
        (
            "async",
            1.0005,
            "unknown",
        ),  # the page cache went while the acknowledgement was on its way
        ("async", 2, False),  # it was empty before
        ("sync", 1.0005, False),  # a power cut takes nothing that was on disk
    ],
)
def test_a_fault_may_take_a_copy_before_the_acknowledgement_arrives(
    flush: str, at_s: float, valid: Validity
) -> None:
    cut = fault("power_cut", "n0", at_s=at_s, healed_s=9)
    ops = ("0 invoke send a t=1", "0 ok send a")

    verdict = check("durable_before_ack", ack(), ops=ops, flush=flush, faults=(cut,))

    assert verdict.valid == valid


def test_copies_that_a_fault_took_meanwhile_are_excused_beside_proven_ones() -> None:
    cut = fault("power_cut", "n0", at_s=1.0005, healed_s=9)
    ops = ("0 ok send z", "0 invoke send a t=1", "0 ok send a")
    seen = ack(cached="n0", key="z"), ack()

    verdict = check("durable_before_ack", *seen, ops=ops, flush="async", faults=(cut,))

    assert (verdict.valid, verdict.counts["acks_excused"]) == (True, 1)


def test_one_that_may_be_on_an_unobserved_node_is_not_green_beside_proven_ones() -> None:
    seen = ack(durable="n0 n1", key="z"), ack(durable="n0", unobserved="n1")

    verdict = check("durable_before_ack", *seen, ops=("0 ok send z", "0 ok send a"), **SYNC)

    assert (verdict.valid, verdict.counts["acks_unclear"]) == ("unknown", 1)
    assert verdict.reason == "1 of 2 acknowledgements rest on nodes that were not observed"


@pytest.mark.parametrize(("at_s", "valid"), [(0.5, False), (1.0005, True), (2, "unknown")])
def test_a_disk_that_was_destroyed_before_holds_nothing(at_s: float, valid: Validity) -> None:
    lost = replace(fault("disk_lost", "n1", at_s=at_s, healed_s=None), permanent=True)
    ops = ("0 ok send z", "0 invoke send a t=1", "0 ok send a")
    seen = ack(durable="n0 n1", key="z"), ack(durable="n0", unobserved="n1")

    verdict = check("durable_before_ack", *seen, ops=ops, faults=(lost,), **SYNC)

    assert verdict.valid == valid


@pytest.mark.parametrize(("mode", "valid"), [("hardened", False), ("faithful", True)])
def test_only_a_hardened_slave_acknowledges_what_it_has_on_disk(mode: str, valid: bool) -> None:
    seen = ack(durable="n0", cached="n1")

    assert check("durable_before_ack", seen, replication="sync", mode=mode).valid is valid


def test_only_send_ok_promises_copies() -> None:
    ops = ("0 ok send z", "0 info send a error=FLUSH_DISK_TIMEOUT")

    verdict = check("durable_before_ack", ack(durable="n0", key="z"), ack(), ops=ops)

    assert verdict.valid is True


@pytest.mark.parametrize(
    ("seen", "anomaly"),
    [
        (replica(100, 100, None), None),
        (replica(100, 60, None), None),
        (replica(100, 100, 40), "replica_diverged"),
        (replica(60, 100, None), "replica_ahead"),
    ],
)
def test_replica_prefix(seen: Any, anomaly: str | None) -> None:
    verdict = check("replica_prefix", seen, replication="sync")

    assert [finding.anomaly for finding in verdict.findings] == ([anomaly] if anomaly else [])


def test_a_replica_that_healed_before_the_end_is_a_prefix() -> None:
    verdict = check("replica_prefix", replica(100, 100, 40), replica(200, 200, None))

    assert verdict.valid is True


def test_a_diverged_replica_is_a_documented_hazard_of_the_faithful_mode() -> None:
    verdict = check("replica_prefix", replica(100, 100, 40), mode="faithful")

    assert (verdict.valid, verdict.counts["replica_diverged_informational"]) == (True, 1)


@pytest.mark.parametrize("name", ["durable_before_ack", "replica_prefix"])
def test_what_was_not_observed_is_not_green(name: str) -> None:
    verdict = check(name)

    assert (verdict.valid, verdict.reason) == ("unknown", "not observed")


def test_an_acknowledgement_without_an_observation_is_not_green() -> None:
    two = ("0 ok send a", "0 ok send b")

    verdict = check("durable_before_ack", ack(durable="n0 n1"), ops=two, flush="sync")

    assert (verdict.valid, verdict.counts["acks_proven"]) == ("unknown", 1)
    assert verdict.reason == "1 of 2 acknowledgements were not observed"


def test_a_pair_that_was_not_compared_is_not_green() -> None:
    verdict = check("replica_prefix", replica(1, 1, None), replica_sets={**PAIR, "c": ("n2", "n3")})

    assert (verdict.valid, verdict.reason) == ("unknown", "not observed")


def test_a_pair_that_lost_a_node_for_good_is_not_compared() -> None:
    lost = replace(fault("disk_lost", "n0", at_s=1, healed_s=None), permanent=True)
    brokers = {**PAIR, "c": ("n2", "n3")}

    assert check_run(history(), [], facts(replica_sets=PAIR, faults=(lost,))).not_applicable
    seen = {**replica(1, 1, None), "broker_name": "c"}
    assert check("replica_prefix", seen, replica_sets=brokers, faults=(lost,)).valid is True


def test_one_broker_alone_has_no_replicas_to_compare() -> None:
    run = check_run(history("0 ok send a"), [], facts())

    assert "replica_prefix" in run.not_applicable


def test_the_client_checkers_ask_for_no_observations() -> None:
    ops = history("0 ok send a", "1 ok consume a", "9 ok probe b", "9 ok drain")

    assert check_run(ops, [], facts(replica_sets=PAIR), CLIENT_CHECKERS).valid is True


def rot(node: str = "n0", *, bitten: bool = True, start: int = 100) -> FaultFacts:
    record = RottenRecord(key="a", start=start, end=start + 50)
    return replace(fault("bit_rot", node, at_s=1, healed_s=2, bitten=bitten), records=(record,))


@pytest.mark.parametrize(
    ("faults", "differences", "valid"),
    [
        ((rot(),), [120], True),
        ((rot("n1"),), [120], True),
        ((rot(), rot(start=300)), [120, 310], True),
        ((), [120], False),
        ((rot(bitten=False),), [120], False),
        ((rot("n2"),), [120], False),  # of another broker
        ((rot(),), [99], False),
        ((rot(),), [150], False),
        ((rot(),), [120, 121], False),  # the fault changes one byte
        ((rot(), rot(start=300)), [120, 200], False),
    ],
)
def test_a_record_that_a_fault_has_changed_explains_its_own_byte(
    faults: tuple[FaultFacts, ...], differences: list[int], valid: Validity
) -> None:
    seen = replica(500, 500, differences[0]) | {"differences": differences}

    assert check("replica_prefix", seen, faults=faults, replication="sync").valid is valid
