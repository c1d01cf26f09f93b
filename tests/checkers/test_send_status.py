"""A weaker status than SEND_OK must have a reason."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.compose import check_run
from checkers.verdict import Validity, Verdict
from tests.checkers.test_replicas import ack
from tests.support.history_language import facts, fault, history

PAIR = {"b": ("n0", "n1")}
WEAK = "0 info send a error=FLUSH_SLAVE_TIMEOUT"


def check(*observations: dict[str, Any], op: str = WEAK, **changes: object) -> Verdict:
    known = facts(**{"brokers": PAIR, "replication": "sync", **changes})
    verdicts = check_run(history(op), observations, known).verdicts
    return next(verdict for verdict in verdicts if verdict.checker == "weak_statuses")


@pytest.mark.parametrize(
    ("seen", "valid"),
    [
        (ack(durable="n0 n1"), False),
        (ack(durable="n0", cached="n1"), True),  # the slave has not flushed it: no SEND_OK
        (ack(durable="n0"), True),
        (ack(durable="n0", unobserved="n1"), True),  # perhaps it has it, perhaps not
    ],
)
def test_a_weak_status_needs_a_missing_copy(seen: dict[str, Any], valid: Validity) -> None:
    verdict = check(seen)

    assert verdict.valid is valid
    assert verdict.counts.get("weak_though_safe", 0) == (valid is False)


def test_near_a_fault_the_last_copy_may_come_too_late() -> None:
    partition = fault("partition", "n1", at_s=0, healed_s=1)
    verdict = check(ack(durable="n0 n1"), faults=(partition,))

    assert verdict.valid is True
    [finding] = verdict.findings
    assert (finding.judgement, finding.key) == ("informational", "a")


def test_what_nobody_looked_at_is_unknown() -> None:
    assert (check().valid, check().reason) == ("unknown", "1 not observed")


@pytest.mark.parametrize("op", ["0 ok send a", "0 info send a", "0 fail send a"])
def test_other_ends_are_not_asked_for(op: str) -> None:
    assert check(ack(durable="n0 n1"), op=op).valid is True


def test_the_first_sends_of_a_broker_may_meet_slaves_that_are_coming_up() -> None:
    def counted(*ops: str) -> set[str]:
        known = facts(brokers=PAIR, replication="sync")
        verdicts = check_run(history(*ops), [ack(durable="n0 n1")], known).verdicts
        verdict = next(verdict for verdict in verdicts if verdict.checker == "weak_statuses")
        return {finding.judgement for finding in verdict.findings}

    assert counted(WEAK, "0 ok send b") == {"informational"}
    assert counted("0 ok send b", WEAK) == {"violation"}
