"""Verdicts of version 1 are read with the names of this version."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from staticfire.checkers.guarantees.former_names import (
    FORMER_ANOMALIES,
    VERDICT_VERSION,
    current_name,
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


@pytest.mark.parametrize("version", [0, VERDICT_VERSION + 1, "2", None])
def test_another_version_is_refused(tmp_path: Path, version: Any) -> None:
    with pytest.raises(RunFolderError, match=f"has version .*; allowed: 1 to {VERDICT_VERSION}"):
        verdict_file(tmp_path, version=version).read_verdict()
