"""The folder on this machine that holds the files of one run until the run ends."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from staticfire.harness.machines.errors import EnvironmentFailed

FREE_MIN_BYTES = (
    64 << 20
)  # enough for stores and logs of a minute; on a full disk nodes appear to hang


def check_room() -> None:
    """Check the disk before a run makes anything. Raises EnvironmentFailed if there is too little room."""
    parent = tempfile.gettempdir()
    free_bytes = shutil.disk_usage(parent).free
    if free_bytes < FREE_MIN_BYTES:
        raise EnvironmentFailed(
            f"{parent} has {free_bytes >> 20} MiB left; a run needs {FREE_MIN_BYTES >> 20} MiB there, "
            "or another folder in TMPDIR"
        )


def make_run_folder() -> Path:
    """Make the folder of a run. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix="staticfire-"))
