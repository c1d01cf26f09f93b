"""Liveness after heal: probes and drains."""

from __future__ import annotations

import pytest

from checkers.compose import check_run
from checkers.verdict import Validity, Verdict
from tests.support.history_language import facts, history


def check_liveness(*ops: str, **changes: object) -> Verdict:
    verdicts = check_run(history(*ops), [], facts(**changes)).verdicts
    return next(verdict for verdict in verdicts if verdict.checker == "liveness")


@pytest.mark.parametrize(
    ("ops", "valid"),
    [
        (["9 ok probe b", "9 ok drain"], True),
        (["9 fail probe b", "9 ok drain"], False),
        (["9 info probe b", "9 ok drain"], False),
        (["9 fail probe b", "9 ok probe b", "9 ok drain"], True),  # it came back within the bound
        (["9 ok probe b", "9 fail probe b", "9 ok drain"], False),
        (["9 ok probe b", "9 info drain 0:9:5"], False),
        (["9 ok probe b", "9 info drain 0:9:5", "9 ok drain"], True),
        (["9 ok probe b"], "unknown"),
        (["9 ok drain"], "unknown"),
        (["9 invoke probe b", "9 ok drain"], "unknown"),
        (["9 ok probe c", "9 ok drain"], "unknown"),
    ],
)
def test_liveness(ops: list[str], valid: Validity) -> None:
    assert check_liveness(*ops).valid == valid


def test_a_broker_that_was_lost_for_good_need_not_serve() -> None:
    brokers = {"b": ("n0",), "c": ("n1",)}
    ops = ("9 ok probe b", "9 ok drain")

    assert check_liveness(*ops, brokers=brokers).reason == "broker c was never probed"
    assert check_liveness(*ops, brokers=brokers, living=("b",)).valid is True


def test_a_lag_that_stays_names_group_topic_and_count() -> None:
    [finding] = check_liveness("9 ok probe b", "9 info drain 0:9:5").findings

    assert (finding.group, finding.topic) == ("g", "t")
    assert finding.detail == "4 messages still unread when the bound was reached"
