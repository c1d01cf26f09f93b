"""Every kernel against a plain reference, on random histories; and the merge law, for any cut.

`HISTORIES=2000 pytest tests/checkers/test_against_reference.py` tries more of them.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.engine.kernel import Kernel
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import KERNELS
from tests.support import reference_checkers as reference
from tests.support import reference_loss
from tests.support.chunked_kernels import check_chunks
from tests.support.history_language import fault
from tests.support.one_checker import read_ops
from tests.support.sample import sample_of

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "60")))
GROUPS = {"g": ("t",), "h": ("t", "u")}
CUT = fault("power_cut", "n0", at_s=0.01, healed_s=0.02)
KEYS = st.sampled_from([f"k{number}" for number in range(8)])
OFFSETS = st.integers(0, 4) | st.sampled_from([10**6, 10**15])
PLACE = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["t", "t", "u"]),
        "broker": st.sampled_from(["b", "b", "c"]),
        "queue": st.integers(0, 1),
    }
)
TO_GROUP = st.fixed_dictionaries(
    {"group": st.sampled_from(["g", "h"]), "topic": st.sampled_from(["t", "u"])}
)
ENDINGS = st.sampled_from(["ok", "ok", "ok", "info", "fail", "weak", "open"])


@st.composite
def send(draw: st.DrawFn) -> dict[str, Any]:
    ending = draw(ENDINGS)
    value = {"key": draw(KEYS), "topic": draw(PLACE)["topic"]}
    if ending in ("ok", "weak"):
        value |= draw(PLACE)
        value |= {"queue_offset": draw(OFFSETS), "physical_offset": draw(OFFSETS)}
    if ending != "open":
        value["attempts"] = draw(st.integers(0, 2))
    return {"f": "send", "ending": ending, "value": value, "late": draw(st.booleans())}


@st.composite
def consume(draw: st.DrawFn) -> dict[str, Any]:
    event = st.tuples(
        KEYS | st.none(), OFFSETS, OFFSETS, st.just(True) | st.booleans(), st.integers(0, 1)
    )
    messages = [list(one) for one in draw(st.lists(event, min_size=1, max_size=3))]
    value = {**draw(PLACE), "group": draw(st.sampled_from(["g", "h"])), "messages": messages}
    ending = draw(st.sampled_from(["ok", "ok", "info", "fail", "open"]))
    return {"f": "consume", "ending": ending, "value": value, "late": draw(st.booleans())}


QUEUES = st.tuples(st.sampled_from(["b", "c"]), st.integers(0, 1)).map(list)


@st.composite
def of_group(draw: st.DrawFn) -> dict[str, Any]:
    f = draw(st.sampled_from(["assign", "commit"]))
    queues = draw(st.lists(QUEUES, unique_by=tuple, max_size=3))
    rows = queues if f == "assign" else [[*queue, draw(st.integers(0, 5))] for queue in queues]
    value = {**draw(TO_GROUP), ("queues" if f == "assign" else "offsets"): rows}
    return {"f": f, "ending": "ok", "value": value, "late": False}


@st.composite
def drain(draw: st.DrawFn) -> dict[str, Any]:
    ends = [
        [*queue, draw(st.integers(0, 1)), draw(st.integers(0, 6)), draw(st.integers(0, 6))]
        for queue in draw(st.lists(QUEUES, unique_by=tuple, max_size=3))
    ]
    ending = draw(st.sampled_from(["ok", "ok", "info"]))
    value = {**draw(TO_GROUP), "queues": ends, "lag": 0}
    return {"f": "drain", "ending": ending, "value": value, "late": False}


@st.composite
def histories(draw: st.DrawFn) -> list[Op]:
    """Random ops: invocations and completions interleave, keys are sent once, anything may be delivered."""
    focused = draw(st.booleans())
    some = st.one_of(send(), send(), consume(), consume(), of_group(), of_group())
    steps = draw(st.lists(some, min_size=8 * focused, max_size=16))
    steps += draw(st.lists(drain(), max_size=3))
    if focused:
        steps = [{**step, "value": _in_one_place(step["value"])} for step in steps]
    ops: list[Op] = []
    waiting: list[tuple[int, dict[str, Any]]] = []
    sent: set[str] = set()
    for step in steps:
        if step["f"] == "send" and step["value"]["key"] in sent:
            continue
        sent.add(step["value"].get("key", ""))
        process = draw(st.integers(0, 2))
        if step["late"] or step["ending"] == "open":
            _append(ops, process, "invoke", step)
            if step["ending"] != "open":
                waiting.append((process, step))
        else:
            _append(ops, process, step["ending"], step)
        completes: bool = draw(st.booleans())
        if waiting and completes:
            process, step = waiting.pop(0)
            _append(ops, process, step["ending"], step)
    return ops


def _in_one_place(value: dict[str, Any]) -> dict[str, Any]:
    """The same with one group and one queue, so that things meet."""
    of_queue = {"topic": "t", "broker": "b", "queue": 0, "group": "g"}
    moved = {name: of_queue.get(name, known) for name, known in value.items()}
    if "offsets" in value:
        moved["offsets"] = [["b", 0, offset] for *_, offset in value["offsets"][:1]]
    if "queues" in value:
        moved["queues"] = [["b", 0, *rest] for _, _, *rest in value["queues"][:1]]
    if "messages" in value:
        moved["messages"] = [
            [key or "k0", offset % 7, *physical, True, tries]
            for key, offset, *physical, _, tries in value["messages"]
        ]
    if "queue_offset" in value:
        moved["queue_offset"] = value["queue_offset"] % 7
    return moved


def _append(ops: list[Op], process: int, ending: str, step: dict[str, Any]) -> None:
    weak = ending == "weak"
    ops.append(
        Op(
            index=len(ops),
            time_ns=len(ops) * 1_000_000,
            process=process,
            type="info" if weak else ending,  # type: ignore[arg-type]  # one of the four
            f=step["f"],
            value=step["value"],
            error="FLUSH_DISK_TIMEOUT" if weak else None,
        )
    )


def verdict_of(ops: list[Op], name: str, **more: Any) -> Verdict:
    columns, context = read_ops(ops, groups=GROUPS, **more)
    return next(kernel for kernel in KERNELS if kernel.name == name).check(columns, context)


def count(verdict: Verdict, *anomalies: str) -> int:
    return sum(verdict.counts.get(anomaly, 0) for anomaly in anomalies)


def of(verdict: Verdict, *anomalies: str) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.anomaly in anomalies]


@pytest.mark.slow
@STEADY
@given(histories())
def test_loss(ops: list[Op]) -> None:
    verdict = verdict_of(ops, "loss")
    expected = reference_loss.loss(ops, GROUPS)

    assert count(verdict, "lost", "unseen") == len(expected)
    found = {(finding.anomaly, finding.key, finding.group) for finding in verdict.findings}
    assert found <= expected


@pytest.mark.slow
@STEADY
@given(histories())
def test_provenance(ops: list[Op]) -> None:
    verdict = verdict_of(ops, "provenance")
    expected = reference.provenance(ops)

    by_anomaly = Counter(anomaly for anomaly, _ in expected)
    for anomaly in ("phantom", "aborted_read", "misrouted"):
        assert count(verdict, anomaly) == by_anomaly[anomaly]
        assert {(anomaly, finding.key) for finding in of(verdict, anomaly)} <= expected
    assert count(verdict, "corrupt") == reference.corrupt(ops)


@pytest.mark.slow
@STEADY
@given(histories())
def test_causality(ops: list[Op]) -> None:
    verdict = verdict_of(ops, "causality")
    expected = reference.delivered_before_send(ops)

    assert count(verdict, "delivered_before_send") == len(expected)
    assert {finding.key for finding in verdict.findings} <= expected


@pytest.mark.slow
@STEADY
@given(histories())
def test_order(ops: list[Op]) -> None:
    verdict = verdict_of(ops, "order")

    held_two = reference.inconsistent_offsets(ops)
    assert count(verdict, "inconsistent_offsets") == len(held_two)
    assert {place(finding) for finding in of(verdict, "inconsistent_offsets")} <= held_two

    late_sends = reference.misordered_sends(ops)
    assert count(verdict, "nonmonotonic_send", "realtime_order") == len(late_sends)
    sends = of(verdict, "nonmonotonic_send", "realtime_order")
    assert {finding.key for finding in sends} <= late_sends

    late = reference.out_of_order(ops)
    assert count(verdict, "out_of_order") == len(late)
    found = {(finding.group, *place(finding)) for finding in of(verdict, "out_of_order")}
    assert found <= late


def place(finding: Finding) -> tuple[Any, ...]:
    return (finding.topic, finding.broker, finding.queue), finding.queue_offset


@pytest.mark.slow
@STEADY
@given(histories())
def test_duplication(ops: list[Op]) -> None:
    verdict = verdict_of(ops, "duplication")
    expected = reference.duplicates(ops)

    unexplained = {which for which, explained in expected.items() if not explained}
    assert count(verdict, "duplicate_unexplained") == len(unexplained)
    assert count(verdict, "duplicate_allowed") == len(expected) - len(unexplained)
    found = {(finding.key, finding.group) for finding in of(verdict, "duplicate_unexplained")}
    assert found <= unexplained


@pytest.mark.slow
@STEADY
@given(histories())
def test_commits_ahead(ops: list[Op]) -> None:
    verdict = verdict_of(ops, "offsets")
    expected = reference.commits_ahead(ops)

    assert count(verdict, "commit_ahead") == len(expected)
    assert {
        (finding.group, place(finding)[0], finding.op_index)
        for finding in of(verdict, "commit_ahead")
    } <= expected


@pytest.mark.slow
@STEADY
@given(histories(), st.sampled_from([(), ("g",)]))
def test_polls(ops: list[Op], broadcasting: tuple[str, ...]) -> None:
    verdict = verdict_of(ops, "polls", broadcasting=broadcasting)
    expected = reference.poll_anomalies(ops, GROUPS, broadcasting)

    by_name: Counter[str] = Counter()
    for (anomaly, allowed, *_), times in expected.items():
        by_name[f"{anomaly}_allowed" if allowed else anomaly] += times
    assert {name: n for name, n in verdict.counts.items() if name != "polled"} == by_name
    for finding in verdict.findings:
        what = (finding.anomaly, finding.judgement == "allowed", finding.group, *place(finding))
        assert any(known[:-1] == what for known in expected)


@pytest.mark.slow
def test_every_anomaly_occurs() -> None:
    """Or the histories would prove nothing."""
    seen: Counter[str] = Counter()

    @settings(max_examples=250)
    @given(histories())
    def look(ops: list[Op]) -> None:
        seen.update({anomaly for anomaly, *_ in reference_loss.loss(ops, GROUPS)})
        seen.update({anomaly for anomaly, *_ in reference.provenance(ops)})
        seen.update({anomaly for anomaly, *_ in reference.poll_anomalies(ops, GROUPS)})
        seen["delivered_before_send"] += bool(reference.delivered_before_send(ops))
        seen["corrupt"] += reference.corrupt(ops) > 0
        seen["inconsistent_offsets"] += bool(reference.inconsistent_offsets(ops))
        seen["misordered send"] += bool(reference.misordered_sends(ops))
        seen["out_of_order"] += bool(reference.out_of_order(ops))
        seen["commit_ahead"] += bool(reference.commits_ahead(ops))
        for explained in reference.duplicates(ops).values():
            seen["duplicate" if explained else "duplicate_unexplained"] += 1

    look()
    assert set(+seen) == {
        *("lost", "unseen", "phantom", "aborted_read", "misrouted", "corrupt", "commit_ahead"),
        *(
            "delivered_before_send",
            "inconsistent_offsets",
            "misordered send",
            "out_of_order",
            "duplicate",
        ),
        *("duplicate_unexplained", "poll_skip", "int_poll_skip", "nonmonotonic_poll"),
        "int_nonmonotonic_poll",
    }, seen


SAMPLED = sample_of([kernel.name for kernel in KERNELS], 7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [kernel for kernel in KERNELS if kernel.name in SAMPLED],
    ids=lambda kernel: kernel.name,
)
@pytest.mark.parametrize("flush", ["sync", "async"])
@settings(STEADY, max_examples=40)
@given(ops=histories(), chunks=st.integers(1, 7))
def test_any_cut_gives_the_same_verdict(
    kernel: Kernel, flush: str, ops: list[Op], chunks: int
) -> None:
    columns, context = read_ops(
        ops, flush=flush, groups=GROUPS, faults=(CUT,), replica_sets={"b": ("n0",), "c": ("n1",)}
    )

    whole = kernel.check(columns, context)
    in_chunks = check_chunks(kernel, columns, context, chunks)

    assert in_chunks.to_json() == whole.to_json()
