"""The table of the log around a message: acknowledgements, the bytes of each node, and the cuts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from staticfire.harness.html_report.log_bytes import (
    NEIGHBOURS,
    LogBytes,
    log_bytes,
    place_of,
)
from staticfire.harness.html_report.page import render
from staticfire.harness.html_report.panels import panels_of
from staticfire.harness.rocketmq.observers.stored_log import CommitLogs
from tests.harness.html_report.recorded import LOSS, recorded
from tests.harness.rocketmq.observers.test_stored_log import log_file, record


def around(
    run: Path,
    lines: Sequence[str] = LOSS,
    nodes: Sequence[str] = ("n0",),
    observations: Sequence[dict[str, Any]] = (),
    faults: Sequence[dict[str, Any]] = (),
) -> LogBytes | None:
    """Around the first finding, the lost message `a` at physical offset 0; `b` is at 100."""
    of = recorded(lines)
    [finding] = [one for one in of.verdict.findings() if one.anomaly == "lost"]
    place = place_of(finding)
    assert place is not None
    for events in of.history.queues():
        place.take(events, of.history.names)
    names = of.history.names
    return log_bytes(run, finding, place, names, nodes, observations, faults, CommitLogs())


def test_without_files_it_is_what_was_acknowledged(tmp_path: Path) -> None:
    found = around(tmp_path)
    assert found is not None
    assert (found.nodes, found.dumps) == ([], [])
    assert [(row.offset, row.acknowledged, row.is_place) for row in found.rows] == [
        (0, "a at 0.001 s", True),
        (100, "b at 0.002 s", False),
    ]


def test_each_node_holds_the_message_another_one_or_nothing(tmp_path: Path) -> None:
    for node, data in (
        ("n0", record("a", 0).ljust(100, b"\0") + record("b", 100)),
        ("n1", record("c", 0)),
        ("n2", bytes(300)),
    ):
        log_file(tmp_path / "nodes" / node / "store", 0, data)
    found = around(tmp_path, nodes=("n0", "n1", "n2", "n3", "../n0", ".."))
    assert found is not None
    assert found.nodes == ["n0", "n1", "n2"]
    here = next(row for row in found.rows if row.is_place)
    assert [word for word, _ in here.held] == ["kept", "other", "gone"]
    assert here.held[1][1].startswith("c, ")
    assert here.held[2][1] == "zeros: no record begins here"
    [_, (node, lines), _] = found.dumps
    assert node == "n1"
    assert lines[0].startswith(">          0  00 00 00 ")
    assert "da a3 20 a7" in lines[0]


def test_recoveries_and_power_cuts_stand_where_they_cut(tmp_path: Path) -> None:
    recovery = {
        "kind": "recovery",
        "node": "n0",
        "time_ns": 3 * 10**9,
        "end_offset": 0,
        "cut_bytes": 118,
        "clean": False,
    }
    dropped = [
        {"path": "/store/commitlog/00000000000000000000", "start": 40, "end": 400},
        {"path": "/store/consumequeue/t/0/00000000000000000000", "start": 50, "end": 90},
        {"path": "/store/commitlog/00000000000000001024", "start": 0, "end": 9},
    ]
    incident = {"node": "n0", "at_ns": 2 * 10**9, "what": "power cut", "dropped": dropped}
    elsewhere = {**recovery, "node": "n9"}
    found = around(
        tmp_path,
        observations=[recovery, {**recovery, "clean": True}, elsewhere],
        faults=[{"incidents": [incident]}, {"incidents": None}],
    )
    assert found is not None
    assert [(row.offset, row.event) for row in found.rows if row.event] == [
        (0, "n0 recovers at 3.000 s: its log ends at 0, 118 bytes cut"),
        (40, "n0 loses its power at 2.000 s: bytes 40 to 400 are gone"),
    ]
    assert [row.offset for row in found.rows] == [0, 0, 40, 100]


def test_only_the_nearest_neighbours_are_shown(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(40)]
    sends = [f"0 ok send {key}" for key in keys]
    deliveries = [f"1 ok consume {key}" for key in keys if key != "k20"]
    found = around(tmp_path, [*sends, *deliveries, "9 ok drain"])
    assert found is not None
    assert [row.offset for row in found.rows] == [
        100 * number for number in range(20 - NEIGHBOURS, 20 + NEIGHBOURS + 1)
    ]
    assert [row.acknowledged[:3] for row in found.rows if row.is_place] == ["k20"]


def test_a_link_to_another_folder_is_not_followed(tmp_path: Path) -> None:
    log_file(tmp_path / "outside" / "n0" / "store", 0, record("secret", 0))
    run = tmp_path / "run"
    run.mkdir()
    (run / "nodes").symlink_to(tmp_path / "outside")
    found = around(run)
    assert found is not None
    assert found.nodes == []


def test_the_page_has_the_table(tmp_path: Path) -> None:
    assert "Bytes of the log" in render(panels_of(recorded(LOSS)))
