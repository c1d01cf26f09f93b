"""Verdicts of earlier versions: read under the current names."""

from __future__ import annotations

import re
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

import orjson
import pytest

from staticfire.checkers.guarantees.facts import RunFacts, Timings
from staticfire.checkers.guarantees.fault_effects import STALLS, STOPS
from staticfire.checkers.guarantees.former_names import (
    FACTS_GONE,
    FORMER_ANOMALIES,
    FORMER_FACTS,
    FORMER_TIMINGS,
    FREEZE_IN_RESTART,
    VERDICT_VERSION,
    current_name,
    with_current_facts,
    with_current_names,
)
from staticfire.checkers.verdicts.compose import ALL_CHECKERS
from staticfire.harness.run_folder.run_folder import RunFolder, RunFolderError

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "apache-runs"
ANOMALIES = {name for checker in ALL_CHECKERS for name in checker.anomalies}


def test_every_name_that_took_over_is_an_anomaly_and_no_former_one_is() -> None:
    assert set(FORMER_ANOMALIES.values()) <= ANOMALIES
    assert ANOMALIES.isdisjoint(FORMER_ANOMALIES)


def test_no_page_campaign_or_defect_has_a_former_name() -> None:
    """As a name: quoted or in backticks. The page about 4.9.8 says once what was printed before."""
    former = re.compile(rf"""["'`]({"|".join(FORMER_ANOMALIES)})["'`]""")
    paths = [
        path
        for folder, suffix in (("docs", "md"), ("faults", "toml"), ("harness", "toml"))
        for path in (ROOT / folder).rglob(f"*.{suffix}")
    ]
    assert len(paths) > 60
    found = [
        (path.name, match[1])
        for path in paths
        for match in former.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == [("apache-4.9.8.md", "vanished")]


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("vanished", "lost_from_log"),
        ("vanished_informational", "lost_from_log_informational"),
        ("lost", "lost"),
        ("owned_twice_hazard", "double_ownership_hazard"),
        ("", ""),
    ],
)
def test_a_name(name: str, now: str) -> None:
    assert current_name(name) == now


def test_a_recorded_verdict_is_read_with_new_names() -> None:
    recorded = orjson.loads((DATA / "failed-fsync" / "verdict.json").read_bytes())
    assert b"vanished" in orjson.dumps(recorded["verdict"])
    found = orjson.dumps(with_current_names(recorded["verdict"]))
    assert b'"vanished"' not in found
    assert b'"lost_from_log"' in found


def test_texts_that_are_no_names_of_anomalies_stay() -> None:
    finding = {"anomaly": "vanished", "topic": "invisible", "key": "vanished"}
    verdict = {"verdicts": [{"counts": {}, "findings": [finding, 3]}, 4], "mode": "overtaken"}
    found = with_current_names(verdict)
    assert found["mode"] == "overtaken"
    assert found["verdicts"] == [
        {"counts": {}, "findings": [{**finding, "anomaly": "lost_from_log"}, 3]},
        4,
    ]


def verdict_file(folder: Path, **fields: Any) -> RunFolder:
    document = {
        "digest": "",
        "facts": {},
        "verdict": {"verdicts": [{"counts": {"vanished": 2}}]},
        **fields,
    }
    (folder / "verdict.json").write_bytes(orjson.dumps(document))
    return RunFolder(folder)


@pytest.mark.parametrize(
    ("fields", "name"),
    [({}, "lost_from_log"), ({"version": 1}, "lost_from_log"), ({"version": 2}, "vanished")],
)
def test_the_version_decides(tmp_path: Path, fields: dict[str, Any], name: str) -> None:
    assert verdict_file(tmp_path, **fields).read_verdict()["verdict"] == {
        "verdicts": [{"counts": {name: 2}}]
    }


def test_every_fact_that_took_over_is_a_fact_and_no_former_one_is() -> None:
    facts, timings = ({field.name for field in fields_of(of)} for of in (RunFacts, Timings))
    assert set(FORMER_FACTS.values()) <= facts
    assert facts.isdisjoint(FORMER_FACTS.keys() | FACTS_GONE)
    assert set(FORMER_TIMINGS.values()) <= timings
    assert timings.isdisjoint(FORMER_TIMINGS)


def test_recorded_facts_are_read_with_new_names() -> None:
    recorded = orjson.loads((DATA / "failed-fsync" / "verdict.json").read_bytes())["facts"]
    assert {"brokers", "slave_behind_max_bytes"} <= recorded.keys()
    more = {"name_servers": ["ns-1"], "asks_brokers": True, "timings": {"slave_sync_s": 1.5}}
    facts = RunFacts.from_json({**recorded, **more})
    assert facts.replica_sets == {name: tuple(of) for name, of in recorded["brokers"].items()}
    assert facts.coordinators == ("ns-1",)
    assert facts.timings.follower_sync_s == 1.5
    again = with_current_facts(recorded)
    assert with_current_facts(again) == again


def test_the_parts_of_a_recorded_freeze_in_a_restart_do_what_they_do_alone() -> None:
    recorded = orjson.loads((DATA / "failed-fsync" / "verdict.json").read_bytes())["facts"]
    parts = [{"node": node, "start_ns": 5, "end_ns": 9, "affects": None} for node in ("ns-1", "n1")]
    fault = {
        "fault_id": "1",
        "kind": FREEZE_IN_RESTART,
        "targets": ["ns-1", "n1"],
        "affects": [STALLS, STOPS],
        "struck": parts,
    }
    facts = RunFacts.from_json({**recorded, "faults": [fault, {**fault, "kind": "filter_change"}]})
    assert [[one.affects for one in of.struck] for of in facts.faults] == [
        [(STALLS,), (STOPS,)],
        [None, None],
    ]


def test_facts_with_a_former_name_and_the_name_that_took_over_are_refused() -> None:
    recorded = orjson.loads((DATA / "failed-fsync" / "verdict.json").read_bytes())["facts"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'brokers'"):
        RunFacts.from_json({**recorded, "replica_sets": {}})


@pytest.mark.parametrize("found", [None, [], "facts", {"timings": 3}])
def test_what_stands_in_place_of_facts_stays(found: object) -> None:
    assert with_current_facts(found) == found


@pytest.mark.parametrize(
    ("version", "name"), [(1, "replica_sets"), (2, "replica_sets"), (3, "brokers")]
)
def test_the_version_decides_about_facts(tmp_path: Path, version: int, name: str) -> None:
    folder = verdict_file(tmp_path, version=version, facts={"brokers": {}})
    assert folder.read_verdict()["facts"] == {name: {}}


@pytest.mark.parametrize("version", [0, VERDICT_VERSION + 1, "2", None])
def test_another_version_is_refused(tmp_path: Path, version: Any) -> None:
    with pytest.raises(RunFolderError, match=f"has version .*; allowed: 1 to {VERDICT_VERSION}"):
        verdict_file(tmp_path, version=version).read_verdict()
