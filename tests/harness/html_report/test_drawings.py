"""Drawings: gaps stay gaps, every fault has a name, and texts of the run are never markup."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from staticfire.harness.html_report.activity import Slices
from staticfire.harness.html_report.charts import (
    Series,
    copies_chart,
    count_chart,
    duration_chart,
    rate_chart,
)
from staticfire.harness.html_report.copies import Copies, Step
from staticfire.harness.html_report.svg import Band, TimeScale, nice_ticks
from staticfire.harness.html_report.timeline import ROWS_MAX, FaultLife, fault_lives, timeline
from tests.harness.html_report.recorded import fault_record

SLICES, SCALE = Slices(count=6, length_s=1), TimeScale(6.0)
HOSTILE = '</svg><script>alert("x")</script>'


def parsed(svg: str) -> ElementTree.Element:
    """The drawing, which is well-formed XML."""
    return ElementTree.fromstring(svg)


def path_of(svg: str, class_: str) -> str:
    [found] = [
        path.attrib["d"] for path in parsed(svg).iter("path") if path.attrib["class"] == class_
    ]
    return found


def test_no_line_crosses_slices_without_data() -> None:
    series = [Series("p99", 0, [1000, 2000, -1, -1, 3000, 4000])]
    line = path_of(duration_chart("latency", series, SLICES, SCALE, []), "line s0")
    assert [run.count("L") for run in line.split("M")[1:]] == [1, 1]


def test_a_single_slice_can_be_seen() -> None:
    series = [Series("p99", 0, [-1, -1, 7000, -1, -1, -1])]
    line = path_of(duration_chart("latency", series, SLICES, SCALE, []), "line s0")
    assert re.fullmatch(r"M[0-9.]+ [0-9.]+h6", line)


def test_a_slice_in_which_nothing_happened_has_no_bar() -> None:
    series = [Series("sends", 0, [3, 0, 0, 5, 0, 1])]
    assert path_of(rate_chart("rate", series, SLICES, SCALE, []), "bar s0").count("M") == 3


def test_bars_are_stacked() -> None:
    series = [Series("a", 0, [2, 0, 0, 0, 0, 0]), Series("b", 1, [2, 0, 0, 0, 0, 0])]
    svg = rate_chart("rate", series, SLICES, SCALE, [])
    low, high = (float(path_of(svg, f"bar s{n}").split()[1].split("h")[0]) for n in (0, 1))
    assert high < low


def test_numbers_hold_until_the_next_slice() -> None:
    series = [Series("unseen", 0, [0, 2, 2, 1, 0, 0])]
    line = path_of(count_chart("unseen", series, SLICES, SCALE, []), "line s0")
    assert line.count("H") == SLICES.count


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "bit"),
        ({"bitten": False}, "never bit"),
        ({"fired_ns": None, "struck_ns": None, "healed_ns": None, "bitten": False}, "never fired"),
        ({"error": "no such node"}, "failed"),
    ],
)
def test_a_fault_says_what_it_came_to(changes: dict[str, Any], state: str) -> None:
    [life] = fault_lives([fault_record(**changes)], 0.0)
    assert life.state == state
    svg = timeline([life], {}, SCALE)
    assert f"kill of n0: {state}" in "".join(parsed(svg).itertext())


def test_the_plan_begins_when_the_cluster_is_up() -> None:
    [life] = fault_lives([fault_record()], 20.0)
    assert (life.planned_s, life.planned_until_s) == (21.0, 23.0)


def test_only_a_fault_that_bit_is_in_the_background_of_charts() -> None:
    bit, idle = fault_lives([fault_record(), fault_record(id=1, bitten=False)], 0.0)
    assert bit.band(6.0) == Band(1.0, 3.0, "kill of n0")
    assert idle.band(6.0) is None
    [unhealed] = fault_lives([fault_record(healed_ns=None)], 0.0)
    assert unhealed.band(6.0) == Band(1.0, 6.0, "kill of n0")


def test_many_faults_share_rows_by_kind() -> None:
    records = [fault_record(kind=f"kind-{n % 5}", id=n) for n in range(ROWS_MAX + 1)]
    svg = timeline(fault_lives(records, 0.0), {}, SCALE)
    names = [text.text for text in parsed(svg).iter("text") if "kind-" in (text.text or "")]
    assert len(names) == 5
    assert "kind-0 (9)" in names


def test_marks_that_are_near_each_other_do_not_overlap() -> None:
    svg = timeline([], {"load ends": 3.0, "end": 3.01}, SCALE)
    assert [
        text.text for text in parsed(svg).iter("text") if text.text in ("load ends", "end")
    ] == ["load ends"]


@pytest.mark.parametrize(
    "svg",
    [
        duration_chart(
            HOSTILE, [Series(HOSTILE, 0, [1] * 6)], SLICES, SCALE, [Band(0, 1, HOSTILE)]
        ),
        rate_chart(HOSTILE, [Series(HOSTILE, 0, [1] * 6)], SLICES, SCALE, [Band(0, 1, HOSTILE)]),
        count_chart(HOSTILE, [Series(HOSTILE, 0, [1] * 6)], SLICES, SCALE, [Band(0, 1, HOSTILE)]),
        timeline(
            fault_lives([fault_record(kind=HOSTILE, targets=[HOSTILE])], 0.0), {HOSTILE: 1.0}, SCALE
        ),
        copies_chart(Copies([Step(1, 1, 0, HOSTILE)])),
    ],
)
def test_texts_of_a_run_are_no_markup(svg: str) -> None:
    assert "script" not in {one.tag for one in parsed(svg).iter()}
    assert "<script" not in svg


def test_the_copies_end_where_none_is_left() -> None:
    steps = [Step(1, 1, 0, "acknowledged"), Step(2, 0, 0, "power of n0 is cut")]
    svg = copies_chart(Copies(steps))
    assert "no copy left" in svg
    assert "0.000 s, acknowledged: 0 on disk, 1 in memory alone" in parsed(svg).attrib["aria-label"]


@pytest.mark.parametrize("top", [0.0, 0.4, 1.0, 7.0, 85.3, 86_400.0, 1e9])
def test_ticks_are_few_and_reach_no_further_than_the_axis(top: float) -> None:
    ticks = nice_ticks(top)
    assert 1 <= len(ticks) <= 12
    assert ticks[0] == 0
    assert ticks[-1] <= top or top == 0


def test_a_label_stays_in_the_drawing() -> None:
    late = FaultLife(
        name="0",
        kind="a-kind-with-a-long-name",
        targets="broker-a-0, broker-b-0",
        planned_s=5.5,
        planned_until_s=6.0,
        fired_s=5.5,
        struck_s=5.5,
        healed_s=6.0,
        bitten=True,
        error=None,
        evidence="",
    )
    svg = timeline([late], {}, SCALE)
    [label] = [one for one in parsed(svg).iter("text") if "a-kind" in (one.text or "")]
    assert label.attrib["text-anchor"] == "end"
