"""Provenance of delivered messages: each has a send, and equals what was sent."""

from __future__ import annotations

import pytest

from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import facts, history
from tests.support.one_checker import judged_by


def check_provenance(*ops: str) -> Verdict:
    return judged_by("provenance", history(*ops), [], facts())


@pytest.mark.parametrize(
    ("ops", "anomaly"),
    [
        (["0 ok send a", "1 ok consume a"], None),
        (["1 ok consume a"], "phantom"),
        (["0 invoke send a", "1 ok consume a"], None),
        (["0 info send a", "1 ok consume a"], None),
        # any group that reads a failed send, with any end of the read
        (["0 fail send a", "1 ok consume a"], "aborted_read"),
        (["0 fail send a", "1 info consume a"], "aborted_read"),
        (["0 fail send a", "1 invoke consume a"], "aborted_read"),
        (["1 ok consume a", "0 fail send a"], "aborted_read"),
        # a wrong body says nothing about the key
        (["0 ok send a", "1 ok consume a!"], "corrupt"),
        (["1 ok consume a!"], "corrupt"),
        (["1 ok consume ?"], "corrupt"),
        (["0 ok send a", "1 ok consume a@1:0"], "misrouted"),
        (["0 ok send a", "1 ok consume a@0:0 broker=c"], "misrouted"),
        (["0 ok send a@0:1", "1 ok consume a@0:3"], "misrouted"),
        (["0 ok send a@0:1 attempts=2", "1 ok consume a@0:3"], None),
        (["0 info send a", "1 ok consume a@0:0 topic=u"], "misrouted"),
        (["0 ok send a attempts=2", "1 ok consume a@0:0 topic=u"], "misrouted"),
        # a retry may have left a copy in another queue
        (["0 ok send a attempts=2", "1 ok consume a@1:0"], None),
        (["0 info send a", "1 ok consume a@1:0"], None),
        # the broker itself moves messages there
        (["0 ok send a", "1 ok consume a@0:0 topic=%RETRY%g"], None),
        (["0 ok send a", "1 ok consume a@0:0 topic=%DLQ%g"], None),
        # where it moves messages of another group
        (["0 ok send a", "1 ok consume a@0:0 topic=%RETRY%h"], "misrouted"),
        (["0 ok send a", "1 ok consume a@0:0 topic=%DLQ%gg"], "misrouted"),
        # a probe is a message like any other
        (["9 ok probe b key=p", "1 ok consume p"], None),
    ],
)
def test_provenance(ops: list[str], anomaly: str | None) -> None:
    verdict = check_provenance(*ops)

    found = [finding.anomaly for finding in verdict.findings]
    assert (verdict.valid, found) == (anomaly is None, [anomaly] if anomaly else [])


def test_a_message_is_reported_once_however_often_it_was_delivered() -> None:
    verdict = check_provenance("1 ok consume a", "2 ok consume a", "3 info consume a")

    assert verdict.counts["phantom"] == 1


def test_a_misrouted_message_names_the_queue_that_it_was_sent_to() -> None:
    [finding] = check_provenance("0 ok send a", "1 ok consume a@1:0").findings

    assert finding.detail == "sent to t@b/0"
