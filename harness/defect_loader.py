"""Runs a command again against a system under test with a planted bug.

`use_defect` interrupts the command, and `run_planted` starts the same command in a process that finds a patched copy
of the system first on its import path. So it does not matter when a module imports the system.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import staticfire
from staticfire.faults.defects import SYSTEM, defect_named, plant
from staticfire.harness.temporary import TemporaryFolder

VARIABLE = "STATICFIRE_PLANTED"  # the defect in the system of this process


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
    """Yield two folders for the start of an import path: a temporary one with the defective system, and ours.

    Raises DefectError.
    """
    defect = defect_named(name)
    with patched_system(partial(plant, defect)) as folders:
        yield folders


@contextmanager
def patched_system(patch: Callable[[Path, Path], object]) -> Iterator[tuple[str, str]]:
    """Do the same for any patch, a function of our system and of the folder for its copy."""
    face = Path(staticfire.__file__).parent
    temporary = TemporaryFolder("staticfire-defect-")
    try:
        copy = temporary.make() / staticfire.__name__
        copy.mkdir()
        for part in face.glob("*.py"):
            shutil.copy(part, copy)
        patch((face / SYSTEM).resolve(), copy)
        yield str(temporary.path), str(face.parent)
    finally:
        temporary.remove()


def run_planted(name: str, arguments: Sequence[str]) -> int:
    """Run `staticfire` with these arguments in a process that has the defect; return its exit status.

    Ctrl-C and SIGTERM of this process also end the other one. Raises DefectError.
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
