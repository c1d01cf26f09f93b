"""Optional fields of histories: a field that is missing is unknown, so a valid history is never invalid without it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from staticfire.checkers.model.history import Op, decode_history, encode_op
from staticfire.checkers.op_kinds.catalogue import SENDS
from staticfire.checkers.verdicts.compose import check_run
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.runs.simulated_runner import run_simulated
from tests.support.sample import sample_of

HISTORIES = int(os.environ.get("HISTORIES", "6"))  # of each workload
WORKLOADS = ("queue", "ordered", "transactional", "request-reply", "delayed", "filtered")
# Fields of a value that a client need not report (docs/client-protocol.md), by kind of op.
OPTIONAL = {
    **dict.fromkeys(SENDS, ("physical_offset", "attempts", "status", "id")),
    "open": ("group", "topic", "expression", "model", "orderly"),
    "look_up": ("first_offsets", "node"),
    "reply": ("properties",),
    "answer": ("properties",),
}
WHOLE = frozenset(
    {"group", "topic", "expression", "model", "orderly"}
)  # reported together or not at all
# Ops that a client need not report.
REPORTS = ("assign", "begin", "commit", "commit_to", "check_back", "send_back")


@pytest.fixture(scope="module", params=WORKLOADS)
def run(request: pytest.FixtureRequest) -> RunResult:
    """A valid run of a few virtual seconds with a kill."""
    options = {"workload": request.param, "time_s": 6.0, "acks_min": 1, "faults": ("kill",)}
    result = run_simulated(draw_campaign(11, options))
    assert result.verdict.valid is True
    return result


def without(ops: Sequence[Op], random: Random) -> Iterator[Op]:
    """The same history from a client that leaves out some of the optional fields and ops."""
    fields = {(f, name) for f, names in OPTIONAL.items() for name in names if random.random() < 0.4}
    if any(name in WHOLE for _, name in fields):
        fields |= {("open", name) for name in WHOLE}
    reports = [f for f in REPORTS if random.random() < 0.25]
    if "commit" in reports:
        reports.append("commit_to")  # it announces a commit
    nodes, stamps = random.random() < 0.2, random.random() < 0.5
    always = random.random() < 0.5
    index = 0
    for op in ops:
        if op.f in reports:
            continue
        left = {
            name: value
            for name, value in op.value.items()
            if (op.f, name) not in fields or not (always or op.f == "open" or random.random() < 0.5)
        }
        yield replace(
            op,
            index=index,
            value=left,
            node=None if nodes and op.f in SENDS else op.node,
            stamp=None if stamps else op.stamp,
        )
        index += 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", sample_of(range(HISTORIES), 2))
def test_a_valid_history_without_optional_fields_is_not_invalid(seed: int, run: RunResult) -> None:
    ops = list(without(run.ops, Random(seed)))
    read = decode_history(b"".join(map(encode_op, ops))).ops
    verdict = check_run(read, run.observations, run.facts)
    failed = [of.reason for of in verdict.verdicts if "the checker failed" in (of.reason or "")]
    assert failed == []
    assert [f for f in verdict.findings() if f.judgement == "violation"] == []


@pytest.mark.slow
@pytest.mark.parametrize("field", sorted({(f, name) for f, of in OPTIONAL.items() for name in of}))
def test_each_field_by_itself(field: tuple[str, str], run: RunResult) -> None:
    f, name = field
    names = WHOLE if name in WHOLE else {name}
    ops = [
        replace(op, value={of: v for of, v in op.value.items() if of not in names})
        if op.f == f
        else op
        for op in run.ops
    ]
    verdict = check_run(ops, run.observations, run.facts)
    assert [of.reason for of in verdict.verdicts if "failed" in (of.reason or "")] == []
    assert verdict.valid is not False
