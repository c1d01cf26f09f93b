"""Runs a command again against a system under test with a planted bug.

`use_defect` interrupts the command, and `run_planted` starts the same command as a process that finds a patched copy of
the system first on its import path. Nothing depends on which module imports the system when.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import staticfire
from staticfire.faults.defects import SYSTEM, defect_named, plant
from staticfire.harness.temporary import TemporaryFolder

VARIABLE = "STATICFIRE_PLANTED"  # the defect that the system of this process has


class DefectToPlant(Exception):
    """The command has to run again with this defect planted."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def use_defect(name: str) -> None:
    """Return if the system of this process has the defect, or if the name is empty.

    Raises DefectError for an unknown defect, and DefectToPlant for one that this process does not have.
    """
    if name and os.environ.get(VARIABLE) != name:
        raise DefectToPlant(defect_named(name).name)


@contextmanager
def planted(name: str) -> Iterator[tuple[str, str]]:
    """Two folders for the beginning of an import path: a temporary one with the system that has the defect, and ours.

    Raises DefectError.
    """
    face = Path(staticfire.__file__).parent
    temporary = TemporaryFolder("staticfire-defect-")
    logging.getLogger("patch_ng").setLevel(logging.ERROR)
    try:
        copy = temporary.make() / staticfire.__name__
        copy.mkdir()
        for part in face.glob("*.py"):
            shutil.copy(part, copy)
        plant(defect_named(name), (face / SYSTEM).resolve(), copy)
        yield str(temporary.path), str(face.parent)
    finally:
        temporary.remove()


def run_planted(name: str, arguments: Sequence[str]) -> int:
    """Run `staticfire` with these arguments in a process that has the defect; return its exit status.

    Ctrl-C and SIGTERM of this process end that one, too. Raises DefectError.
    """
    with planted(name) as folders:
        paths = [*folders, *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = {**os.environ, VARIABLE: name, "PYTHONPATH": os.pathsep.join(paths)}
        # -P: a package in the working folder must not come before the copy.
        command = [sys.executable, "-P", "-m", staticfire.__name__, *arguments]
        with subprocess.Popen(command, env=variables) as process:
            while True:
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    process.send_signal(signal.SIGTERM)
