"""Results of `staticfire shrink` in the folder of a run: read for its report, with the command to run them."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.checkers.model.history import HistoryError
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.html_report import recorded_run
from staticfire.harness.html_report.commands import commands_of
from staticfire.harness.html_report.recorded_run import Shrunk, read_shrunk


def test_its_files_are_read_and_the_story_may_still_be_missing(tmp_path: Path) -> None:
    folder = tmp_path / "shrunk"
    assert read_shrunk(folder) is None
    folder.mkdir()
    assert read_shrunk(folder) is None
    (folder / "shrunk.toml").write_bytes(b"[campaign]\n# \xff\n")
    (folder / "shrunk.txt").write_text("faults 9 -> 1\n")
    assert read_shrunk(folder) == Shrunk(
        folder=folder, campaign_text="[campaign]\n# \\xff\n", text="faults 9 -> 1\n", story=""
    )
    (folder / "story.txt").write_text("it is gone")
    found = read_shrunk(folder)
    assert found is not None
    assert found.story == "it is gone"


def test_a_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_run, "SHRUNK_BYTES_MAX", 10)
    (tmp_path / "shrunk.toml").write_text("[campaign]\nseed = 5\n")
    with pytest.raises(HistoryError, match="at most 10 are read"):
        read_shrunk(tmp_path)


def test_the_command_runs_the_shrunk_campaign(tmp_path: Path) -> None:
    campaign = draw_campaign(1, {})
    assert "run what was shrunk" not in dict(commands_of(tmp_path, campaign, False))
    (tmp_path / "shrunk").mkdir()
    (tmp_path / "shrunk" / "shrunk.toml").touch()
    command = dict(commands_of(tmp_path, campaign, False))["run what was shrunk"]
    assert command == f"staticfire run --campaign {tmp_path}/shrunk/shrunk.toml"
    assert "run what was shrunk" not in dict(commands_of(tmp_path, campaign, True))
