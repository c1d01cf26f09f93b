"""The live view of a run, refresh by refresh, and its charts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from staticfire.harness.serve.charts import Band, Series, line_chart
from staticfire.harness.serve.folder import ServedFolder
from staticfire.harness.serve.live import (
    ACKED,
    BUCKETS_MAX,
    DELIVERED,
    LiveRun,
    LiveRuns,
    Throughput,
)

S = 10**9


def line(f: str, kind: str, at_s: float, process: int = 1, /, **value: Any) -> str:
    op = {"index": 0, "time_ns": int(at_s * S), "process": process, "type": kind, "f": f}
    return json.dumps({**op, "value": value}) + "\n"


def delivery(key: str, at_s: float) -> str:
    return line("consume", "invoke", at_s, messages=[[key, 0, 0, True, 0]])


class Written:
    """A run that goes on."""

    def __init__(self, folder: Path) -> None:
        (folder / "run").mkdir()
        self._path = folder / "run" / "history.jsonl"
        self._path.touch()
        self._folder = ServedFolder(folder)
        self.run = LiveRun()

    def write(self, text: str) -> LiveRun:
        with self._path.open("a") as file:
            file.write(text)
        self.run.look(self._folder, ("run",))
        return self.run

    def replace(self, text: str) -> LiveRun:
        self._path.write_text(text)
        self.run.look(self._folder, ("run",))
        return self.run


def test_a_look_reads_what_is_new_and_half_a_line_later(tmp_path: Path) -> None:
    written = Written(tmp_path)
    sent = line("send", "ok", 0.5, key="p1-0")
    run = written.write(sent + sent.replace("p1-0", "p1-1")[:30])
    assert (run.ops, run.throughput.total(ACKED)) == (1, 1)
    run = written.write(sent.replace("p1-0", "p1-1")[30:])
    assert (run.ops, run.throughput.total(ACKED)) == (2, 2)


def test_unseen_messages_are_those_that_no_consumer_was_given(tmp_path: Path) -> None:
    written = Written(tmp_path)
    run = written.write(line("send", "ok", 0, key="p1-0") + line("send", "ok", 1, key="p1-1"))
    assert run.unseen == 2
    run = written.write(delivery("p1-0", 2) + delivery("p1-0", 3) + delivery("p1-9", 3))
    assert (run.unseen, run.throughput.unseen) == (1, [1, 2, 1, 1])
    run = written.write(line("send", "ok", 4, key="p1-9"))
    assert run.unseen == 1
    assert run.throughput.total(DELIVERED) == 3


def test_lag_is_from_the_acknowledgement_to_the_first_delivery(tmp_path: Path) -> None:
    written = Written(tmp_path)
    run = written.write(line("send", "ok", 0, key="p1-0") + line("send", "ok", 1, key="p1-1"))
    assert run.throughput.lag_s(50) == [None, None]
    assert run.oldest_unseen_ns == S
    run = written.write(delivery("p1-0", 4) + delivery("p1-0", 9) + delivery("p1-1", 4.5))
    lags = run.throughput.lag_s(100)
    assert lags[:4] == [None] * 4
    assert lags[4] == pytest.approx(4, rel=0.1)  # the second delivery of p1-0 is no lag
    assert run.throughput.lag_s(50)[4] == pytest.approx(3.5, rel=0.1)
    assert set(lags[5:]) == {None}
    assert run.oldest_unseen_ns is None


def test_a_percentile_is_never_too_low_and_hardly_too_high(tmp_path: Path) -> None:
    written = Written(tmp_path)
    for number in range(1, 101):
        written.write(line("send", "ok", 0, key=f"p1-{number}"))
    run = written.write("".join(delivery(f"p1-{n}", n / 1000) for n in range(1, 101)))
    for percent, exact_s in ((50, 0.050), (99, 0.099), (100, 0.100)):
        [found] = run.throughput.lag_s(percent)
        assert found is not None
        assert exact_s <= found * (1 + 1e-9) <= exact_s * 1.1


def test_lags_of_neighbours_are_joined_when_steps_double() -> None:
    throughput = Throughput()
    for second in range(BUCKETS_MAX + 1):
        throughput.add(second * S, DELIVERED, 1, unseen=0)
        throughput.add_lags(second * S, [S if second % 2 else 2 * S])
    assert throughput.step_s == 2
    assert throughput.lag_s(100)[:3] == pytest.approx([2.0] * 3, rel=0.1)
    assert throughput.lag_s(50)[:3] == pytest.approx([1.0] * 3, rel=0.1)


def test_faults_are_on_until_they_stop(tmp_path: Path) -> None:
    written = Written(tmp_path)
    fault = {"fault_id": 3, "kind": "kill", "targets": ["broker-a-0"]}
    run = written.write(line("start_kill", "info", 1, -1, **fault))
    assert [one["kind"] for one in run.faults_on] == ["kill"]
    run = written.write(line("stop_kill", "info", 4, -1, **fault))
    assert run.faults_on == []
    run = written.write(line("node_exit", "info", 5, -1, node="broker-a-0"))
    assert run.events[-1] == (5 * S, "node_exit broker-a-0")


def test_a_file_that_is_shorter_is_another_run(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.write(line("send", "ok", 0, key="p1-0") * 3)
    run = written.replace(line("send", "ok", 0, key="p1-0"))
    assert (run.ops, run.unseen) == (1, 1)


def test_steps_double_when_a_run_is_long() -> None:
    throughput = Throughput()
    for second in range(BUCKETS_MAX * 3):
        throughput.add(second * S, ACKED, 2, unseen=second)
    assert throughput.step_s == 4
    assert len(throughput.buckets) == len(throughput.unseen) <= BUCKETS_MAX
    assert throughput.total(ACKED) == BUCKETS_MAX * 6
    assert set(throughput.rate(ACKED)) == {2.0}
    assert throughput.unseen[0] == 3
    assert throughput.unseen[-1] == BUCKETS_MAX * 3 - 1


def test_the_latest_runs_are_kept(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"run-{number}").mkdir()
        (tmp_path / f"run-{number}" / "history.jsonl").write_text(line("send", "ok", 1, key="k"))
    runs = LiveRuns(ServedFolder(tmp_path))
    assert {runs.look(f"run-{number}").ops for number in range(30)} == {1}
    assert len(runs._runs) <= 16


def test_a_chart_escapes_its_names_and_holds_odd_values() -> None:
    drawn = line_chart(
        [Series(name="<b>", values=[0, 5, 2.5]), Series(name="none", values=[])],
        begin=0,
        step=1,
        unit="s",
        label='"><script>',
        bands=[Band(name="<i>\x1b", begin=-5, end=1e9)],
    )
    assert "<b>" not in drawn
    assert "<script>" not in drawn
    assert "<i>" not in drawn
    assert "\x1b" not in drawn
    assert 'points="60.0,176.0 410.0,8.0 760.0,92.0"' in drawn
    gaps = Series(name="gaps", values=[1, None, 1, 1])
    apart = line_chart([gaps], begin=0, step=1, unit="s", label="gaps")
    assert apart.count('<polyline class="line solid" points="526.7') == 1  # the last two values
    assert 'points="58.0,8.0 62.0,8.0"' in apart  # a value alone
    single = line_chart([Series(name="one", values=[7])], begin=0, step=1, unit="s", label="one")
    assert 'points="60.0,8.0 760.0,8.0"' in single
    assert line_chart([], begin=0, step=1, unit="s", label="empty")
