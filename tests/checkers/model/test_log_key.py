"""Keys of logs, also of logs without a permanent owner."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.columns import LogKey
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import check_run
from tests.support.history_language import facts, fault, history


def homeless(value: Any) -> Any:
    """The same value, in which no broker is part of the name of a log."""
    if isinstance(value, dict):
        return {name: "" if name == "broker" else homeless(one) for name, one in value.items()}
    if isinstance(value, list):
        return ["" if one == "b" else homeless(one) for one in value]
    return value


def moving(*lines: str) -> list[Op]:
    return [replace(op, value=homeless(deepcopy(op.value))) for op in history(*lines)]


def test_logs_sort_by_topic_home_and_partition() -> None:
    logs = [LogKey("t", "b", 1), LogKey("t", "a", 2), LogKey("s", "b", 3), LogKey("t", "a", 0)]

    assert list(map(str, sorted(logs))) == ["s@b/3", "t@a/0", "t@a/2", "t@b/1"]


def test_logs_of_one_home_share_a_stream_and_others_are_their_own() -> None:
    names = build_columns(history("0 ok send a@0:0", "0 ok send b@1:0"))[0].names
    assert (names.streams, names.stream_of_log.tolist()) == (["b"], [0, 0])

    names = build_columns(moving("0 ok send a@0:0", "0 ok send b@1:0"))[0].names
    assert (names.streams, names.stream_of_log.tolist()) == (["t-0", "t-1"], [0, 1])
    assert list(map(str, names.logs)) == ["t/0", "t/1"]


def test_what_a_log_without_a_home_may_lose_depends_on_its_own_replicas() -> None:
    """A power cut of all replicas of one partition says nothing about another partition."""
    lines = ("0 ok send a@0:0", "0 ok send b@1:0", "9 ok drain 0:1:1 1:1:1 t=60")
    of_run = {
        "replica_sets": {"t-0": ("n1",), "t-1": ("n2",)},
        "flush": "async",
        "replication": "none",
        "faults": (fault("power_cut", "n1", at_s=5, healed_s=9),),
    }
    report = check_run(moving(*lines), [], facts(**of_run))

    [loss] = [verdict for verdict in report.verdicts if verdict.checker == "loss"]
    found = {(finding.key, str(finding.judgement)) for finding in loss.findings}
    assert found == {("a", "allowed"), ("b", "violation")}
