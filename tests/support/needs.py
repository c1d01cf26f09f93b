"""Markers for the needs of a test: without them pytest skips it, with the reason, or fails it where CI insists.

Markers: `needs_root("nft", ...)` (root that may make namespaces, and these commands or libraries), `needs_docker` (an
engine that answers), `needs_ssh` (an sshd to start), `needs_spark` (pyspark and a Java), `needs_chromium`,
`needs_node`.
`STATICFIRE_REQUIRE=root,docker,ssh,spark,chromium,node` turns skips into failures.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

from staticfire.faults.linux.clock import LIBRARY
from staticfire.faults.linux.executor import SYSTEM_PATHS
from staticfire.harness.machines.options import IMAGE
from staticfire.spark_analysis.engine.java import packaged_java

REQUIRE = "STATICFIRE_REQUIRE"
TRY_TIMEOUT_S = 60.0


def command_path(command: str) -> str | None:
    return shutil.which(command, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATHS}")


def has(name: str) -> bool:
    """Whether there is such a command; "libfaketime" is a library."""
    if name == "libfaketime":
        return any(Path("/usr/lib").glob(f"*/faketime/{LIBRARY}"))
    return command_path(name) is not None


@cache
def _works(*argv: str) -> bool:
    try:
        done = subprocess.run(argv, capture_output=True, timeout=TRY_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def lacks_root(*commands: str) -> str:
    """Why a test with this marker cannot run here; empty if it can."""
    if os.geteuid() != 0:
        return "needs root"
    if not _works("unshare", "--net", "--mount", "true"):
        return "needs root that may make namespaces"
    missing = [command for command in commands if not has(command)]
    return f"needs root and the commands {', '.join(missing)}" if missing else ""


def lacks_docker() -> str:
    if not _works("docker", "version", "--format", "{{.Server.Version}}"):
        return "needs docker: no engine answers"
    if not _works("docker", "image", "inspect", IMAGE):
        return f"needs docker and the image {IMAGE}: `staticfire docker-image` builds it"
    return ""


def lacks_ssh() -> str:
    return "" if command_path("sshd") else "needs ssh: there is no sshd"


def lacks_spark() -> str:
    if importlib.util.find_spec("pyspark") is None:
        return "needs spark: pip install 'staticfire[spark]'"
    java = shutil.which("java") or packaged_java()
    return "" if java or os.environ.get("JAVA_HOME") else "needs spark: there is no Java"


def lacks_chromium() -> str:
    return "" if command_path("chromium") else "needs chromium"


def lacks_node() -> str:
    return "" if command_path("node") else "needs node"


LACKS: dict[str, Callable[..., str]] = {
    "root": lacks_root,
    "docker": lacks_docker,
    "ssh": lacks_ssh,
    "spark": lacks_spark,
    "chromium": lacks_chromium,
    "node": lacks_node,
}


def required(environment: str | None = None) -> frozenset[str]:
    """What may not be missing. Raises ValueError for a name that is none."""
    text = os.environ.get(REQUIRE, "") if environment is None else environment
    names = frozenset(filter(None, text.replace(" ", "").split(",")))
    if unknown := sorted(names - set(LACKS)):
        raise ValueError(f"{REQUIRE} holds {', '.join(unknown)}; allowed: {', '.join(LACKS)}")
    return names
