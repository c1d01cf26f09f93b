"""Reports made on request: from a copy without links, bounded, and kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from staticfire.checkers.model.history import HistoryError
from staticfire.harness.serve import made_reports
from staticfire.harness.serve.folder import NotServed, ServedFolder
from staticfire.harness.serve.made_reports import ReportMaker, ReportRefused


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run with a link that leads outside."""
    (tmp_path / "secret").write_text("secret")
    run = tmp_path / "runs" / "run"
    (run / "nodes" / "a").mkdir(parents=True)
    (run / "verdict.json").write_text("{}")
    (run / "nodes" / "a" / "log.jsonl").write_text("line")
    (run / "history.jsonl").symlink_to(tmp_path / "secret")
    os.mkfifo(run / "pipe")
    return tmp_path / "runs"


def test_a_report_is_made_from_a_copy_without_links(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def write(run: Path) -> str:
        made.append(run)
        files = [path for path in run.rglob("*") if path.is_file()]
        return f"{run} has {sorted(str(path.relative_to(run)) for path in files)} \udcff"

    monkeypatch.setattr(made_reports, "_write", write)
    maker = ReportMaker(ServedFolder(runs))
    page = maker.page("run").decode()
    assert page == f"{runs}/run has ['nodes/a/log.jsonl', 'verdict.json'] \\udcff"
    assert maker.page("run").decode() == page
    assert len(made) == 1
    assert not made[0].exists()
    (runs / "run" / "verdict.json").write_text("{ }")
    maker.page("run")
    assert len(made) == 2


def test_a_run_that_is_too_large_or_damaged_is_one_sentence(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(run: Path) -> str:
        raise HistoryError(f"{run}/verdict.json holds no verdict")

    monkeypatch.setattr(made_reports, "_write", refuse)
    maker = ReportMaker(ServedFolder(runs))
    with pytest.raises(ReportRefused, match=r"^run/verdict\.json holds no verdict$"):
        maker.page("run")
    monkeypatch.setattr(made_reports, "BYTES_MAX", 3)
    with pytest.raises(ReportRefused, match="the run is too large"):
        maker.page("run")
    with pytest.raises(NotServed):
        maker.page("none")
