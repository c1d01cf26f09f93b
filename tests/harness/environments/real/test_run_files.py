"""Free space for the files of a run: checked before it begins."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from staticfire.harness.environments.real.run_files import check_room, make_run_folder
from staticfire.harness.machines.errors import EnvironmentFailed


def test_a_folder_that_is_nearly_full_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=(64 << 20) - 1))
    with pytest.raises(EnvironmentFailed, match=f"{tmp_path} has 63 MiB left; a run needs 64 MiB"):
        check_room()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=64 << 20))
    check_room()
    assert make_run_folder().parent == tmp_path
