"""Reading the files of a running node by `tar` on its host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from staticfire.harness.machines.ssh.machine import READ_FOLDER


@pytest.mark.parametrize(("tar_status", "status"), [(0, 0), (1, 0), (2, 1)])
def test_files_that_change_while_they_are_read_are_read(
    tmp_path: Path, tar_status: int, status: int
) -> None:
    (tmp_path / "tar").write_text(f"#!/bin/sh\necho archive of $3\nexit {tar_status}\n")
    (tmp_path / "tar").chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", READ_FOLDER, "sh", "some where"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("archive of some where\n", status)
