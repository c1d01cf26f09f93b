"""Starts our Python programs: the interpreter and the folders of code on the machines."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from staticfire import harness, system_under_test
from staticfire.harness.machines.machine import LaunchSpec

# -P: a package in the current folder must not come before a planted copy.
PYTHON_OPTIONS = ("-P", "-m")


def code_folders() -> tuple[str, ...]:
    """Return the folders from which this process imported system and harness; a planted copy comes first."""
    packages = (system_under_test, harness)
    return tuple(dict.fromkeys(str(Path(package.__path__[0]).parents[1]) for package in packages))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """`python` is a command on the machines, `code` the folders there that hold our packages."""

    python: str
    code: tuple[str, ...]

    def launch_spec(
        self, module: str, *arguments: str, files: Mapping[str, bytes] = MappingProxyType({})
    ) -> LaunchSpec:
        """Return how to start a module."""
        return LaunchSpec(
            argv=(self.python, *PYTHON_OPTIONS, module, *arguments),
            files=files,
            variables={"PYTHONPATH": ":".join(self.code), "PYTHONDONTWRITEBYTECODE": "1"},
        )


class OurInterpreter:
    """The interpreter and code of this process, for machines whose nodes are processes of this host."""

    @property
    def python(self) -> str:
        return sys.executable

    @property
    def code(self) -> tuple[str, ...]:
        return code_folders()
