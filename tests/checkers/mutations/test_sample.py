"""A sample of the mutation suite on one small run, in seconds. CI plants every kind (.ci/run)."""

from __future__ import annotations

import os
from functools import lru_cache
from random import Random

import pytest

from staticfire.checkers.model.history import decode_history, encode_op
from tests.checkers.mutations.catalogue import all_kinds, all_mutations, all_oddities
from tests.checkers.mutations.model import EVIDENCE, SITES, Kind, Mutation, Oddity, Run, Site
from tests.checkers.mutations.runs import CLEAN, FAULTS, judged, make_run
from tests.checkers.mutations.score import score_of
from tests.checkers.mutations.table import NOT_PLANTED, every_anomaly, read_floors

ROTATION = os.environ.get("STATICFIRE_ROTATION", "")  # other places for another text
WORKLOAD = "queue"
SEED = 1

# Kinds that any run of plain messages has places for.
DETECTED = (
    "acked_not_delivered",
    "second_group_misses_acked",
    "never_sent",
    "failed_send_delivered",
    "delivered_from_other_topic",
    "body_damaged",
    "two_at_one_offset",
    "realtime_order_exchanged",
    "again_to_same_member",
    "held_back",
    "owner_skips",
    "commit_far_ahead",
    "drained_beyond_end",
    "not_drained",
    "probe_fails",
    "node_died",
    "acked_in_cache_only",
    "replica_diverged",
    "queue_hole",
    "not_found_by_id",
    "txn_g1a",
)


@lru_cache(maxsize=2)
def run_at(site: Site) -> Run:
    run = make_run(WORKLOAD, CLEAN if site == "rest" else FAULTS, SEED, None)
    assert run is not None, (
        f"the {site} run of {WORKLOAD}, seed {SEED}, is not valid: choose another seed"
    )
    return run


def planted(kind: Kind, site: Site) -> Run | None:
    return kind.plant(run_at(site), Random(f"{kind.name}/{ROTATION}"), site)


@pytest.mark.slow
@pytest.mark.parametrize("name", DETECTED)
def test_a_wrong_at_rest_is_detected(name: str) -> None:
    mutation = next(kind for kind in all_mutations() if kind.name == name)
    run = planted(mutation, "rest")
    assert run is not None, "no place for it"
    assert judged(run)[0] is False


@pytest.mark.slow
@pytest.mark.parametrize(
    "oddity", [o for o in all_oddities() if WORKLOAD in o.workloads], ids=lambda o: o.name
)
def test_an_oddity_is_never_invalid(oddity: Oddity) -> None:
    site = Random(f"{oddity.name}/{ROTATION}").choice(SITES)
    run = planted(oddity, site)
    if run is not None:
        valid, named, crashes = judged(run)
        assert (valid in (True, "unknown"), named, crashes) == (True, (), ())


@pytest.mark.slow
@pytest.mark.parametrize("site", ["rest", "fault"])
def test_what_is_planted_is_a_history(site: Site) -> None:
    places = 0
    for kind in Random(f"{site}/{ROTATION}").sample(all_kinds(), 60):
        if WORKLOAD in kind.workloads and (run := planted(kind, site)) is not None:
            places += 1
            decode_history(b"".join(map(encode_op, run.ops)), name=kind.name)
    assert places > 15


@pytest.mark.slow
def test_the_same_place_is_planted_again() -> None:
    mutation = next(kind for kind in all_mutations() if kind.name == "acked_not_delivered")
    first, second = planted(mutation, "rest"), planted(mutation, "rest")
    assert first is not None
    assert second is not None
    assert list(first.ops) == list(second.ops) != list(run_at("rest").ops)


@pytest.mark.slow
def test_what_is_missed_is_counted() -> None:
    blind = Mutation(name="nothing_planted", what="", aim="lost", plant=lambda run, rng, site: run)
    score = score_of(blind, [run_at("rest")], "rest", 2)
    assert (score.places, score.detected, score.share) == (2, 0, 0.0)
    assert score.missed == [f"nothing_planted/{WORKLOAD}/{SEED}/rest/{n}" for n in range(2)]


def test_enough_kinds() -> None:
    names = [kind.name for kind in all_kinds()]
    assert len(names) == len(set(names))
    assert len(all_mutations()) >= 60
    assert len(all_oddities()) >= 25


def test_floors_are_of_kinds_and_have_reasons() -> None:
    assert set(read_floors()) <= {kind.name for kind in all_kinds()}


def test_every_anomaly_has_a_kind_that_aims_at_it() -> None:
    aimed = {kind.aim for kind in all_mutations()}
    assert aimed - every_anomaly() == {EVIDENCE}
    assert every_anomaly() - aimed == set(NOT_PLANTED)


def test_unknown_is_enough_for_evidence_alone() -> None:
    aimed = {kind.aim for kind in all_mutations() if kind.unknown_is_enough}
    assert aimed == {EVIDENCE}
