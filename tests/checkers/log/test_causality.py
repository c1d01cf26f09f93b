"""Causality: no message is delivered before its send."""

from __future__ import annotations

import pytest

from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.one_checker import verdict_on


def check(*ops: str, **changes: object) -> Verdict:
    return verdict_on(ops, "causality", **changes)


@pytest.mark.parametrize(
    ("ops", "early"),
    [
        (["0 ok send a", "1 ok consume a"], []),
        (["1 ok consume a", "0 ok send a"], ["a"]),
        # while the send is under way is soon enough, whatever comes of it
        (["0 invoke send a", "1 ok consume a@0:0", "0 ok send a@0:0"], []),
        (["0 invoke send a", "1 ok consume a@0:0"], []),
        (["1 ok consume a@0:0", "0 invoke send a"], ["a"]),
        (["1 ok consume a@0:0", "0 invoke send a", "0 fail send a"], ["a"]),
        # the listener was called before, and finished later
        (["1 invoke consume a@0:0", "0 ok send a@0:0", "1 ok consume a@0:0"], ["a"]),
        # from another place than the one that was acknowledged
        (["1 ok consume a@1:7", "0 ok send a@0:0", "1 ok consume a@0:0"], ["a"]),
        # a body that is not intact proves nothing about its key, and a phantom has no send
        (["1 ok consume a!", "0 ok send a"], []),
        (["1 ok consume a"], []),
    ],
)
def test_delivered_before_send(ops: list[str], early: list[str]) -> None:
    verdict = check(*ops)

    assert [finding.key for finding in verdict.findings] == early
    assert verdict.valid is (not early)


def test_all_deliveries_of_a_run_before_all_sends() -> None:
    keys = [f"p0-{number}" for number in range(50)]
    given = [f"1 ok consume {key}@0:{number}" for number, key in enumerate(keys)]
    sent = [f"0 ok send {key}@0:{number}" for number, key in enumerate(keys)]

    assert check(*given, *sent, "9 ok drain").counts == {"delivered_before_send": 50}
    assert check(*sent, *given, "9 ok drain").counts == {}
