"""Scenarios of transactions: forbidden reads, and cycles.

A line such as `0 ok x+1@0 y?2@0` is a transaction of process 0 that sent 1 to x and got offset 0, and polled 2 at
offset 0 of y. An earlier `begin 0` sets the time at which it begins; otherwise it begins at the time of its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from staticfire.checkers.model.history import OpType
from staticfire.spark_analysis.synthesis.scenario import Scenario

STEP_S = 0.01
# Anomaly -> its transactions. ALSO has further anomalies of a scenario.
READS = {
    "G1a": "0 fail x+1 / 1 ok x?1@0",
    "G1b": "0 ok x+1@0 x+2@1 / 1 ok x+3@2 / 2 ok x?1@0,3@2",
    "precommitted_read": "0 ok x+1@0 x?1@0",
    "txn_phantom": "0 ok x+1@0 / 1 ok x?1@0,9@1",
    "txn_nonmonotonic_poll": "0 ok x+1@0 / 0 ok x+2@1 / 1 ok x?2@1,1@0",
    "lost_write": "0 info y+1@0 x+2@0 / 1 ok x+3@1 / 2 ok y?1@0 x?3@1",
    "txn_duplicate": "0 ok x+1@1 / 1 ok x?1@3",
    "txn_inconsistent_offsets": "0 ok x+1@0 / 1 ok x+2 / 2 ok x?1@0 / 3 ok x?2@0",
    "txn_nonmonotonic_send": "0 ok x+1@1 x+2@0",
}
ALSO = {"G1b": "lost_write"}  # a further anomaly of the scenario
CYCLES = {
    "G0": "begin 0 / begin 1 / 0 ok x+1@0 y+4@1 / 1 ok x+2@1 y+3@0",
    "G0-process": "0 ok x+1@1 / 0 ok x+2@0",
    "G0-realtime": "0 ok x+1@1 / 1 ok x+2@0",
    "G1c": "begin 0 / begin 1 / 0 ok x+1@0 y?2@0 / 1 ok y+2@0 x?1@0",
    "G1c-process": "0 ok x?1@0 / 0 ok x+1@0",
    "G1c-realtime": "0 ok x?1@0 / 1 ok x+1@0",
    "G-single": "2 ok y+0@0 / begin 0 / begin 1 / 0 ok x+1@0 y+2@1 / 1 ok x?1@0 y?0@0",
    "G-single-process": "9 ok x+1@0 / 0 ok x+2@1 / 0 ok x?1@0",
    "G-single-realtime": "9 ok x+1@0 / 0 ok x+2@1 / 1 ok x?1@0",
    "G2": "9 ok x+1@0 y+1@0 / begin 0 / begin 1 / 0 ok x?1@0 y+2@1 / 1 ok y?1@0 x+2@1",
    "G2-process": "9 ok x+0@0 y+0@0 / begin 1 / 0 ok x+1@1 / 0 ok y?0@0 / 1 ok y+1@1 x?0@0",
    "G2-realtime": "9 ok x+0@0 y+0@0 / begin 1 / 0 ok x+1@1 / 2 ok y?0@0 / 1 ok y+1@1 x?0@0",
}
VIOLATIONS = frozenset({"G1c", "G1c-process", "G1c-realtime"})  # their cycles here have no ww edge


def _expect(scenario: Scenario, lines: str) -> None:
    begun: set[int] = set()
    for index, line in enumerate(lines.split(" / ")):
        first, second, *words = line.split()
        at_s = index * STEP_S
        if first == "begin":
            begun.add(int(second))
            _txn(scenario, at_s, int(second), "invoke", [])
            continue
        mops = [_mop(scenario.name, word) for word in words]
        if int(first) not in begun:
            _txn(scenario, at_s, int(first), "invoke", mops)
        _txn(scenario, at_s, int(first), cast(OpType, second), mops)


def _txn(scenario: Scenario, at_s: float, process: int, type_: OpType, mops: list[Any]) -> None:
    scenario.op(at_s, type_, "txn", {"mops": mops}, process=scenario.process + process)


def _mop(name: str, word: str) -> list[object]:
    """Parse one micro-op. Keys begin with the name of the scenario, so they belong to it alone."""
    key, mark, rest = word[0], word[1], word[2:]
    if mark == "+":
        value, _, offset = rest.partition("@")
        return ["send", f"{name}-{key}", [int(offset), int(value)] if offset else int(value)]
    pairs = (pair.split("@") for pair in rest.split(","))
    return ["poll", {f"{name}-{key}": [[int(offset), int(value)] for value, offset in pairs]}]


def _read(anomaly: str, lines: str) -> Callable[[Scenario, int], None]:
    def inject(scenario: Scenario, _sets: int) -> None:
        _expect(scenario, lines)
        for found in (anomaly, ALSO.get(anomaly)):
            if found is not None:
                scenario.expect_of_run(found, key=f"{scenario.name}-x")

    return inject


def _cycle(anomaly: str, lines: str) -> Callable[[Scenario, int], None]:
    def inject(scenario: Scenario, _sets: int) -> None:
        _expect(scenario, lines)
        scenario.expect_of_run(anomaly, explained=anomaly not in VIOLATIONS)

    return inject


TXN_INJECTIONS: Mapping[str, Callable[[Scenario, int], None]] = {
    **{anomaly: _read(anomaly, lines) for anomaly, lines in READS.items()},
    **{anomaly: _cycle(anomaly, lines) for anomaly, lines in CYCLES.items()},
}
