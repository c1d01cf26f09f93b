"""Fingerprints of verdicts."""

from __future__ import annotations

from staticfire.checkers.guarantees.anomaly_rules import RULES
from staticfire.harness.results.fingerprint import CAUSES, Fingerprint, fingerprint_of


def test_a_loss_and_its_consequences_are_one_cause() -> None:
    all_of_it = {"realtime_order", "lost", "acked_not_durable", "duplicated"}
    assert fingerprint_of(all_of_it) == fingerprint_of({"lost"}) == Fingerprint("loss", "lost")


def test_what_only_an_observer_sees_is_another_fingerprint() -> None:
    assert fingerprint_of({"acked_not_durable"}) != fingerprint_of({"lost"})


def test_an_anomaly_of_no_known_cause_is_a_cause_itself() -> None:
    assert fingerprint_of({"wrong_tag"}) == Fingerprint("wrong_tag", "wrong_tag")
    assert str(fingerprint_of({"wrong_tag"})) == "wrong_tag"
    assert fingerprint_of(set()) is None


def test_causes_are_made_of_anomalies_that_there_are() -> None:
    assert {name for names in CAUSES.values() for name in names} <= set(RULES)
