"""Committed offsets follow what was consumed."""

from __future__ import annotations

import pytest

from checkers.compose import check_run
from checkers.verdict import Verdict
from tests.support.history_language import facts, fault, history

THREE = ("0 ok send a", "0 ok send b", "0 ok send c")


def check(name: str, *ops: str, **changes: object) -> Verdict:
    verdicts = check_run(history(*ops), [], facts(**changes)).verdicts
    return next(verdict for verdict in verdicts if verdict.checker == name)


@pytest.mark.parametrize(
    ("ops", "anomaly"),
    [
        (["1 ok consume a b", "1 ok commit 0:2"], None),
        (["1 ok consume a b", "1 ok commit 0:1"], None),
        (["1 ok consume a", "1 ok commit 0:3"], "commit_ahead"),
        # consumed later does not count, nor does a listener that failed, nor another group
        (["1 ok consume a", "1 ok commit 0:2", "1 ok consume b"], "commit_ahead"),
        (["1 ok consume a", "1 info consume b", "1 ok commit 0:2"], "commit_ahead"),
        (["1 ok consume a", "2 ok consume b group=h", "1 ok commit 0:2"], "commit_ahead"),
        (
            ["1 ok consume a", "1 invoke consume b", "1 ok commit 0:2", "1 ok consume b"],
            "commit_ahead",
        ),
        # a group may begin anywhere, but from there on it must consume
        (["1 ok commit 0:2"], None),
        (["1 ok commit 0:2", "1 ok commit 0:3"], "commit_ahead"),
        (["1 ok commit 0:2", "1 ok consume c", "1 ok commit 0:3"], None),
        # another member of the group may commit what the first consumed
        (["1 ok consume a b", "2 ok commit 0:2"], None),
        (["1 ok consume a b", "1 ok commit 0:2", "1 ok commit 0:1"], "commit_rewound"),
        (["1 ok consume a b", "1 ok commit 0:2", "2 ok commit 0:1"], None),
    ],
)
def test_commits(ops: list[str], anomaly: str | None) -> None:
    verdict = check("offsets", *THREE, *ops)

    assert [finding.anomaly for finding in verdict.findings] == ([anomaly] if anomaly else [])
    assert verdict.valid is (anomaly is None)


REWOUND = (*THREE, "1 ok consume a b t=1", "1 ok commit 0:2 t=2", "1 ok commit 0:1 t=9")


def test_a_fault_nearby_makes_a_rewind_informational() -> None:
    kill = fault("kill", "n0", at_s=5, healed_s=6)

    verdict = check("offsets", *REWOUND, faults=(kill,))

    assert (verdict.valid, verdict.counts["commit_rewound_informational"]) == (True, 1)


def test_a_new_assignment_makes_a_rewind_informational() -> None:
    ops = (*REWOUND[:-1], "1 ok assign 0 t=8", REWOUND[-1])

    assert check("offsets", *ops).valid is True


@pytest.mark.parametrize(
    ("drain", "anomaly"),
    [
        ("9 ok drain 0:3:3", None),
        ("9 ok drain 0:3:4", "commit_beyond_end"),
        ("9 info drain 0:3:4", "commit_beyond_end"),
        ("9 ok drain 0:3:2", "commit_behind"),
        ("9 info drain 0:3:2", None),  # the lag is known: that is liveness
    ],
)
def test_offsets_at_the_drain(drain: str, anomaly: str | None) -> None:
    verdict = check("drained_offsets", *THREE, drain)

    assert [finding.anomaly for finding in verdict.findings] == ([anomaly] if anomaly else [])


def test_without_a_drain_nothing_is_known_about_ends() -> None:
    verdict = check("drained_offsets", *THREE)

    assert (verdict.valid, verdict.reason) == ("unknown", "no group was drained")
