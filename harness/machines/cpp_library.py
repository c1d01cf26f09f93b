"""Checks for RocketMQ's C++ library, which `--client cpp` needs where the clients run, before a run starts anything."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

from staticfire.harness.machines.errors import EnvironmentFailed

NEED = "client.cpp"  # a need of a run, as `MachineProvider.up` gets it
PACKAGE, VERSION = "rocketmq", "0.4.4"
# The library is loaded, too: on a machine without libstdc++ the package is there and useless.
CHECK = (
    f"from importlib.metadata import version; found = version({PACKAGE!r})\n"
    f"assert found == {VERSION!r}, 'it is ' + found\n"
    f"from {PACKAGE} import ffi\n"
)
HERE = (
    "processes",
    "namespaces",
    "address",
)  # environments whose clients are processes of this machine


def check_here() -> None:
    """Check this interpreter. Raises EnvironmentFailed."""
    try:
        found = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        found = ""
    if found != VERSION:
        said = f"it is {found}" if found else "it is not installed"
        raise failure("this machine", said, "pip install 'staticfire[cpp-client]'")


def failure(where: str, said: str, cure: str) -> EnvironmentFailed:
    """Return the error for a machine whose check has failed; `said` is the last line of the check's output."""
    only = "" if _has_wheel() else ", which is made for Linux on x86-64 alone"
    return EnvironmentFailed(
        f"--client cpp needs the Python package {PACKAGE} {VERSION}{only} on {where} ({said}); {cure}"
    )


def _has_wheel() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"
