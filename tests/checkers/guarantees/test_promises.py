"""The table of promises, row by row: the losses that each fault allows for acknowledged messages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from staticfire.checkers.guarantees.facts import (
    FaultFacts,
    Mode,
    NodeExit,
    Replication,
    RottenRecord,
    Timings,
)
from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.promises import Damage, Loss, LossPromises
from tests.support.history_language import facts, fault

SENT_NS = 1_000_000_000  # before the faults below
PAIR = {"b": ("n0", "n1")}


def loss(
    *faults: FaultFacts,
    flush: str = "sync",
    replication: Replication = "none",
    mode: Mode = "hardened",
    sent_ns: int = SENT_NS,
) -> Loss:
    brokers = {"b": ("n0",)} if replication == "none" else PAIR
    promises = LossPromises(
        facts(flush=flush, replication=replication, mode=mode, replica_sets=brokers, faults=faults)
    )
    return promises.rule("b", sent_ns).loss


def hit(kind: str, *targets: str) -> FaultFacts:
    return fault(kind, *(targets or ("n0",)), at_s=5, healed_s=10)


@pytest.mark.parametrize(
    ("kind", "sync_flush", "async_flush"),
    [
        ("partition", Loss.NEVER, Loss.NEVER),
        ("an unknown fault", Loss.NEVER, Loss.NEVER),
        ("kill", Loss.NEVER, Loss.NEVER),
        ("failing_disk", Loss.NEVER, Loss.SUFFIX),
        ("power_cut", Loss.NEVER, Loss.SUFFIX),
        ("power_cut_in_operation", Loss.NEVER, Loss.SUFFIX),
        ("cluster_power_cut", Loss.NEVER, Loss.SUFFIX),
        ("disk_lost", Loss.ANY, Loss.ANY),
    ],
)
def test_one_broker(kind: str, sync_flush: Loss, async_flush: Loss) -> None:
    assert (loss(hit(kind)), loss(hit(kind), flush="async")) == (sync_flush, async_flush)


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([hit("disk_lost")], Loss.NEVER),  # readable from the slave
        ([hit("power_cut")], Loss.NEVER),  # the master fetches its tail from the slave
        ([hit("power_cut", "n1")], Loss.NEVER),
        ([hit("power_cut", "n0", "n1")], Loss.SUFFIX),
        ([hit("disk_lost"), hit("power_cut", "n1")], Loss.SUFFIX),
        ([hit("power_cut"), hit("disk_lost", "n1")], Loss.SUFFIX),
        ([hit("disk_lost", "n0", "n1")], Loss.ANY),
        ([hit("wiped_slave", "n1")], Loss.NEVER),
        ([hit("wiped_slave", "n1"), hit("kill")], Loss.NEVER),
        ([hit("wiped_slave", "n1"), hit("power_cut")], Loss.SUFFIX),
        ([hit("broker_black_hole", "n0", "n1"), hit("rolling_restart", "n0", "n1")], Loss.NEVER),
    ],
)
def test_sync_master_with_async_flush(faults: list[FaultFacts], expected: Loss) -> None:
    assert loss(*faults, flush="async", replication="sync") is expected


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([hit("disk_lost")], Loss.NEVER),
        ([hit("cluster_power_cut", "n0", "n1")], Loss.NEVER),
        ([hit("disk_lost"), hit("power_cut", "n1")], Loss.NEVER),
        ([hit("disk_lost", "n0", "n1")], Loss.ANY),
        ([hit("wiped_slave", "n1"), hit("power_cut")], Loss.NEVER),
    ],
)
def test_sync_master_with_sync_flush(faults: list[FaultFacts], expected: Loss) -> None:
    assert loss(*faults, replication="sync") is expected


def test_an_async_master_lost_for_good_may_take_the_lag_with_it() -> None:
    assert loss(hit("disk_lost"), replication="async") is Loss.ANY


def test_the_slave_of_an_async_master_excuses_nothing() -> None:
    assert loss(hit("disk_lost", "n1"), replication="async") is Loss.NEVER


def test_with_two_slaves_it_is_unknown_which_one_has_the_message() -> None:
    both = (hit("power_cut"), hit("power_cut", "n1"))
    promises = LossPromises(
        facts(
            flush="async", replication="sync", replica_sets={"b": ("n0", "n1", "n2")}, faults=both
        )
    )

    assert promises.rule("b", SENT_NS).loss is Loss.SUFFIX


def test_a_faithful_master_does_not_fetch_its_tail_which_is_a_documented_hazard() -> None:
    assert loss(hit("power_cut"), flush="async", replication="sync", mode="faithful") is Loss.HAZARD


def test_a_fault_that_did_not_bite_excuses_nothing() -> None:
    blunt = fault("power_cut", "n0", at_s=5, healed_s=10, bitten=False)

    assert loss(blunt, flush="async") is Loss.NEVER


def test_a_message_sent_after_the_power_loss_must_survive() -> None:
    assert loss(hit("power_cut"), flush="async", sent_ns=6_000_000_000) is Loss.NEVER


@pytest.mark.parametrize("kind", ["failing_disk", "power_cut_in_operation"])
def test_a_fault_that_strikes_later_touches_what_is_sent_until_its_heal(kind: str) -> None:
    assert loss(hit(kind), flush="async", sent_ns=6_000_000_000) is Loss.SUFFIX
    assert loss(hit(kind), flush="async", sent_ns=11_000_000_000) is Loss.NEVER


def test_two_power_losses_far_apart_are_no_power_loss_of_both() -> None:
    first = fault("power_cut", "n0", at_s=5, healed_s=10)
    second = fault("power_cut", "n1", at_s=40, healed_s=45)

    assert loss(first, second, flush="async", replication="sync") is Loss.NEVER


def test_a_second_power_loss_before_the_first_is_repaired_counts_together_with_it() -> None:
    first = fault("power_cut", "n0", at_s=5, healed_s=10)
    second = fault("power_cut", "n1", at_s=15, healed_s=20)

    assert loss(first, second, flush="async", replication="sync") is Loss.SUFFIX


STOPPED = fault("graceful_stop", "n0", at_s=8, healed_s=18)


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        ([], Loss.NEVER),
        ([STOPPED], Loss.SUFFIX),  # the master gives nothing
        (
            [fault("broker_black_hole", "n1", at_s=12, healed_s=18)],
            Loss.SUFFIX,
        ),  # nor asks the slave
        ([fault("kill", "n0", at_s=19, healed_s=20)], Loss.SUFFIX),  # in the last second of ten
        ([STOPPED, fault("pause", "n1", at_s=27, healed_s=29)], Loss.SUFFIX),
        ([fault("graceful_stop", "n0", at_s=4, healed_s=9)], Loss.NEVER),  # over before the heal
        ([fault("graceful_stop", "n0", at_s=21, healed_s=23)], Loss.NEVER),  # repaired before
        ([fault("graceful_stop", "n0", at_s=8, healed_s=14)], Loss.NEVER),  # repaired since
        ([fault("graceful_stop", "n7", at_s=8, healed_s=18)], Loss.NEVER),  # of another broker
        ([fault("clock_skew", "n0", at_s=8, healed_s=18)], Loss.NEVER),
        ([fault("graceful_stop", "n0", at_s=8, healed_s=18, bitten=False)], Loss.NEVER),
    ],
)
def test_a_replica_is_repaired_only_while_it_reaches_its_peer(
    meanwhile: list[FaultFacts], expected: Loss
) -> None:
    first = fault("power_cut", "n1", at_s=5, healed_s=10)
    second = fault("power_cut", "n0", at_s=25, healed_s=30)

    assert loss(first, *meanwhile, second, flush="async", replication="sync") is expected


@pytest.mark.parametrize(
    ("link", "expected"),
    [(("n0", "n1"), Loss.ANY), (("n1", "n0"), Loss.ANY), (("n1", "n2"), Loss.NEVER)],
)
def test_only_a_partition_from_the_master_keeps_a_slave_from_its_repair(
    link: tuple[str, str], expected: Loss
) -> None:
    cut = replace(fault("partition", "n1", at_s=12, healed_s=20), links=(link,))
    wiped = fault("wiped_slave", "n1", at_s=5, healed_s=10)
    faults = (wiped, cut, fault("disk_lost", "n0", at_s=25, healed_s=30))
    brokers = {"b": ("n0", "n1", "n2")}
    promises = LossPromises(facts(replication="sync", replica_sets=brokers, faults=faults))

    assert promises.rule("b", SENT_NS).loss is expected


def test_another_slave_that_stops_keeps_no_slave_from_its_repair() -> None:
    stopped = fault("graceful_stop", "n2", at_s=8, healed_s=20)
    wiped = fault("wiped_slave", "n1", at_s=5, healed_s=10)
    faults = (wiped, stopped, fault("disk_lost", "n0", at_s=25, healed_s=30))
    brokers = {"b": ("n0", "n1", "n2")}
    promises = LossPromises(facts(replication="sync", replica_sets=brokers, faults=faults))

    assert promises.rule("b", SENT_NS).loss is Loss.NEVER


def test_a_fault_on_another_broker_excuses_nothing() -> None:
    promises = LossPromises(facts(flush="async", faults=(hit("power_cut", "n7"),)))

    assert promises.rule("b", SENT_NS).loss is Loss.NEVER


def test_the_promise_in_words_names_profile_fault_and_node() -> None:
    promises = LossPromises(facts(faults=(hit("power_cut"),)))

    text = promises.text(promises.rule("b", SENT_NS))

    assert text == "sync flush, no replication; after a power cut of n0: it must survive"


def test_damage_is_looked_up_by_time_and_severity() -> None:
    promises = LossPromises(facts(faults=(hit("power_cut"),)))
    second = 1_000_000_000

    def damaged(damage: Damage, since_s: int, until_s: int) -> bool:
        return promises.damaged(
            "b", at_least=damage, since_ns=since_s * second, until_ns=until_s * second
        )

    assert damaged(Damage.POWER, 0, 9)
    assert not damaged(Damage.DISK, 0, 9)
    assert not damaged(Damage.POWER, 6, 9)
    assert not damaged(Damage.POWER, 0, 4)


@pytest.mark.parametrize(
    ("kind", "node", "replication", "expected"),
    [
        ("kill", "n0", "none", Loss.SUFFIX),
        ("partition", "n0", "none", Loss.NEVER),
        ("power_cut", "n0", "none", Loss.SUFFIX),
        ("disk_lost", "n0", "none", Loss.ANY),
        ("kill", "n0", "async", Loss.SUFFIX),
        ("kill", "n1", "async", Loss.NEVER),
        ("kill", "n0", "sync", Loss.NEVER),  # the slave has what was acknowledged
    ],
)
def test_a_transient_store_pool_gives_its_tail_to_a_kill_of_the_master(
    kind: str, node: str, replication: Replication, expected: Loss
) -> None:
    brokers = {"b": ("n0",)} if replication == "none" else PAIR
    given = facts(
        flush="async",
        replication=replication,
        replica_sets=brokers,
        faults=(hit(kind, node),),
    )
    pooled = LossPromises(replace(given, transient_pool=True))
    assert pooled.rule("b", SENT_NS).loss is expected
    assert "flush from a pool" in pooled.text(pooled.rule("b", SENT_NS))


def rot(*targets: str, key: str = "a", bitten: bool = True) -> FaultFacts:
    made = fault("bit_rot", *targets, at_s=5, healed_s=6, bitten=bitten)
    return replace(made, records=(RottenRecord(key=key, start=0, end=100),))


def loss_of(key: str, *faults: FaultFacts, replication: Replication, sent_s: float = 1) -> Loss:
    brokers = {"b": ("n0",)} if replication == "none" else PAIR
    promises = LossPromises(
        facts(flush="sync", replication=replication, replica_sets=brokers, faults=faults)
    )
    return promises.rule("b", round(sent_s * 1e9), key=key).loss


WIPED_BEFORE = fault("wiped_slave", "n1", at_s=-30, healed_s=-28)
WIPED_LATER = fault("wiped_slave", "n1", at_s=50, healed_s=52)


@pytest.mark.parametrize(
    ("faults", "replication", "expected"),
    [
        ([rot("n0")], "none", Loss.ANY),
        ([rot("n0", key="b")], "none", Loss.NEVER),  # of another message
        ([rot("n0", bitten=False)], "none", Loss.NEVER),
        ([rot("n9")], "none", Loss.NEVER),  # of another broker
        ([rot("n0")], "async", Loss.ANY),  # no slave need have had it
        ([rot("n0")], "sync", Loss.NEVER),
        ([rot("n1")], "sync", Loss.NEVER),
        ([rot("n0"), rot("n1")], "sync", Loss.ANY),
        ([rot("n0"), rot("n1", key="b")], "sync", Loss.NEVER),
        ([rot("n0"), WIPED_LATER], "sync", Loss.ANY),  # it may not have been read before
        ([rot("n0"), WIPED_BEFORE], "sync", Loss.NEVER),  # the slave had it again
        ([rot("n0"), hit("power_cut", "n1")], "sync", Loss.NEVER),
    ],
)
def test_a_changed_record_costs_its_own_message_where_no_other_copy_is(
    faults: list[FaultFacts], replication: Replication, expected: Loss
) -> None:
    assert loss_of("a", *faults, replication=replication) is expected


def test_a_changed_record_was_the_only_copy_while_a_wiped_slave_could_not_fetch_it() -> None:
    silent = fault("broker_black_hole", "n1", at_s=-20, healed_s=1)
    faults = (WIPED_BEFORE, rot("n0"))

    assert loss_of("a", *faults, silent, replication="sync", sent_s=-40) is Loss.ANY
    assert loss_of("a", *faults, replication="sync", sent_s=-40) is Loss.NEVER


def test_a_message_sent_after_its_record_was_changed_is_another_one() -> None:
    assert loss_of("a", rot("n0"), replication="none", sent_s=9) is Loss.NEVER


def test_the_strictest_of_several_messages_is_that_of_the_one_that_is_whole() -> None:
    promises = LossPromises(facts(replica_sets={"b": ("n0",)}, faults=(rot("n0"),)))
    sent = np.full(2, SENT_NS)
    judged = [
        promises.strictest("b", sent, keys) for keys in (None, "aa".__getitem__, "ab".__getitem__)
    ]
    assert judged == [Judgement.VIOLATION, Judgement.ALLOWED, Judgement.VIOLATION]


SLOW = fault("slow_disk", "n0", at_s=2, healed_s=4)
KILLED = fault("kill", "n1", at_s=40, healed_s=50)
FULL = fault("disk_full", "n0", at_s=2, healed_s=3)


@pytest.mark.parametrize(
    ("answered_s", "policy", "faults", "expected"),
    [
        (4.5, "", [], Loss.SUFFIX),  # the power is cut at 5 s, and a flush takes 1 s
        (4.0, "", [], Loss.SUFFIX),
        (3.9, "", [], Loss.NEVER),
        (5.5, "", [], Loss.NEVER),  # made after the cut
        (1.5, "", [SLOW], Loss.SUFFIX),  # the disk is slow until 4 s
        (0.9, "", [SLOW], Loss.NEVER),
        (1.5, "", [replace(SLOW, targets=("n1",))], Loss.NEVER),
        (1.5, "", [replace(SLOW, bitten_ns=None)], Loss.NEVER),
        (1.5, "", [FULL], Loss.NEVER),
        (1.5, "store.sync", [FULL], Loss.SUFFIX),  # what could not be written counts as written
        (0.9, "store.sync", [FULL], Loss.NEVER),
        (2.5, "services.copies.safe_end", [], Loss.SUFFIX),  # the copy that is due a second later
        (1.5, "services.copies.safe_end", [], Loss.NEVER),
        (1.5, "services.copies.safe_end", [FULL], Loss.SUFFIX),  # it was moved later
    ],
)
def test_a_retry_is_lost_with_a_tail_only_before_it_is_flushed(
    answered_s: float, policy: str, faults: list[FaultFacts], expected: Loss
) -> None:
    known = facts(
        flush="async",
        mode="faithful" if policy else "hardened",
        policies=(policy,) if policy else (),
        faults=(*faults, hit("power_cut")),
        timings=Timings(flush_s=1.0),
    )
    answered_ns = round(answered_s * 1e9)
    rule = LossPromises(known).rule_of_retry("b", answered_ns, answered_ns, 1_000_000_000)
    assert rule.loss is expected


@pytest.mark.parametrize(
    ("stored_s", "faults", "expected"),
    [
        (4.5, [], Loss.SUFFIX),  # the power is cut at 5 s, and a flush takes 1 s
        (4.0, [], Loss.SUFFIX),
        (3.9, [], Loss.NEVER),
        (1.5, [SLOW], Loss.SUFFIX),  # the disk is slow until 4 s
        (0.9, [SLOW], Loss.NEVER),
        (1.5, [replace(SLOW, targets=("n1",))], Loss.NEVER),
        (1.5, [replace(SLOW, bitten_ns=None)], Loss.NEVER),
        (2.5, [fault("pause", "n0", at_s=3, healed_s=4.5)], Loss.SUFFIX),
        (3.5, [fault("kill", "n0", at_s=1, healed_s=2)], Loss.NEVER),
        # the first cut may take what was stored since 0 s, and the node fetches it until 12 s
        (0.5, [fault("power_cut", "n0", at_s=1, healed_s=2)], Loss.SUFFIX),
        (-0.5, [fault("power_cut", "n0", at_s=1, healed_s=2)], Loss.NEVER),
    ],
)
def test_a_message_is_lost_with_a_tail_only_before_it_is_flushed(
    stored_s: float, faults: list[FaultFacts], expected: Loss
) -> None:
    struck = (*faults, hit("power_cut"))
    known = facts(flush="async", faults=struck, timings=Timings(flush_s=1.0))
    stored_ns = round(stored_s * 1e9)
    assert LossPromises(known).rule("b", stored_ns, stored_ns=stored_ns).loss is expected
    assert LossPromises(known).rule("b", stored_ns).loss is Loss.SUFFIX
    faithful = LossPromises(replace(known, mode="faithful"))
    assert faithful.rule("b", stored_ns, stored_ns=stored_ns).loss is Loss.SUFFIX


def test_a_message_is_lost_with_its_disk_at_any_later_time() -> None:
    known = facts(flush="async", faults=(hit("disk_lost"),), timings=Timings(flush_s=1.0))
    assert LossPromises(known).rule("b", 0, stored_ns=0).loss is Loss.ANY


@pytest.mark.parametrize(
    ("stored_s", "faults", "expected"),
    [
        (96.0, [], Loss.ANY),  # the disk is lost at 100 s, and a copy takes 1 + 2 * 0.1 + 3 s
        (95.0, [], Loss.NEVER),
        (1.0, [], Loss.NEVER),
        (95.0, [fault("kill", "n1", at_s=60, healed_s=75)], Loss.ANY),
        (95.0, [fault("kill", "n1", at_s=60, healed_s=65)], Loss.NEVER),
        (95.0, [fault("network_latency", "n0", at_s=60, healed_s=75)], Loss.ANY),
        (95.0, [fault("network_latency", "c1", at_s=60, healed_s=75)], Loss.NEVER),
        (
            95.0,
            [replace(fault("partition", at_s=60, healed_s=75), links=(("n0", "n1"),))],
            Loss.ANY,
        ),
        (
            95.0,
            [replace(fault("partition", at_s=60, healed_s=75), links=(("n0", "c1"),))],
            Loss.NEVER,
        ),
        (95.0, [fault("slow_disk", "n1", at_s=60, healed_s=75)], Loss.ANY),
        (95.0, [fault("pause", "ns", at_s=60, healed_s=75)], Loss.NEVER),
        # a follower that starts asks the coordinator
        (95.0, [KILLED, fault("pause", "ns", at_s=60, healed_s=75)], Loss.ANY),
        (95.0, [KILLED], Loss.NEVER),
        (95.0, [fault("disk_lost", "n1", at_s=101, healed_s=102)], Loss.ANY),
        (95.0, [fault("power_cut", "n1", at_s=100.1, healed_s=102)], Loss.SUFFIX),
        (95.0, [fault("power_cut", "n1", at_s=101, healed_s=102)], Loss.NEVER),
    ],
)
def test_a_lost_leader_takes_only_what_its_followers_may_lack(
    stored_s: float, faults: list[FaultFacts], expected: Loss
) -> None:
    gone = fault("disk_lost", "n0", at_s=100, healed_s=105)
    known = facts(
        flush="async",
        replication="async",
        replica_sets=PAIR,
        coordinators=("ns",),
        faults=(*faults, gone),
        timings=Timings(flush_s=1.0, packet_s=0.1),
    )
    stored_ns = round(stored_s * 1e9)
    loss = LossPromises(known).rule("b", stored_ns, stored_ns=stored_ns).loss
    assert loss is expected
    faithful = LossPromises(replace(known, mode="faithful"))
    assert faithful.rule("b", stored_ns, stored_ns=stored_ns).loss is Loss.ANY


@pytest.mark.parametrize(("lost_s", "expected"), [(14, Loss.ANY), (15, Loss.NEVER)])
def test_the_followers_of_a_new_cluster_must_have_connected(lost_s: int, expected: Loss) -> None:
    gone = fault("disk_lost", "n0", at_s=lost_s, healed_s=lost_s + 5)
    timings = Timings(flush_s=1.0, packet_s=0.1)
    known = facts(replication="async", replica_sets=PAIR, faults=(gone,), timings=timings)
    assert LossPromises(known).rule("b", 0, stored_ns=1).loss is expected


def test_a_follower_that_ended_by_itself_may_lack_messages() -> None:
    gone = fault("disk_lost", "n0", at_s=100, healed_s=105)
    known = facts(
        replication="async",
        replica_sets=PAIR,
        faults=(gone,),
        exits=(NodeExit(node="n1", time_ns=60_000_000_000, error="x"),),
        timings=Timings(flush_s=1.0, packet_s=0.1),
    )
    stored_ns = 95_000_000_000
    rules = [
        LossPromises(one).rule("b", stored_ns, stored_ns=stored_ns).loss
        for one in (known, replace(known, exits=()))
    ]
    assert rules == [Loss.ANY, Loss.NEVER]


def test_a_follower_of_a_sync_leader_loses_only_what_it_had_not_flushed() -> None:
    struck = (hit("disk_lost"), hit("power_cut", "n1"))
    known = facts(
        flush="async",
        replication="sync",
        replica_sets=PAIR,
        faults=struck,
        timings=Timings(flush_s=1.0),
    )
    promises = LossPromises(known)
    losses = [promises.rule("b", at, stored_ns=at).loss for at in (3_900_000_000, 4_000_000_000)]
    assert losses == [Loss.NEVER, Loss.SUFFIX]


def test_a_retry_whose_delay_is_not_known_may_be_lost_with_any_later_tail() -> None:
    known = facts(flush="async", faults=(hit("power_cut"),), timings=Timings(flush_s=1.0))
    assert LossPromises(known).rule_of_retry("b", 0, 0, None).loss is Loss.SUFFIX


def test_a_retry_is_lost_with_its_disk_at_any_later_time() -> None:
    known = facts(flush="async", faults=(hit("disk_lost"),), timings=Timings(flush_s=1.0))
    assert LossPromises(known).rule_of_retry("b", 0, 0, 1_000_000_000).loss is Loss.ANY
