"""Java on this machine: which command it is, and whether it is recent enough for RocketMQ."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from staticfire.harness.machines.errors import EnvironmentFailed

VERSION_MIN = 8
VERSION_TIMEOUT_S = 20.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# A shell finds Java on the machine itself: in JAVA_HOME there, or on its PATH.
JAVA_ELSEWHERE = ("sh", "-c", 'exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@"', "java")


def local_java() -> str:
    """The command of `JAVA_HOME`, or the one on PATH. Raises EnvironmentFailed if there is none of Java 8 or later."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else "java"
    found = shutil.which(command)
    if found is None:
        where = f"JAVA_HOME is {home!r} and has no bin/java" if home else "there is no java on PATH"
        raise EnvironmentFailed(
            f"--target apache needs Java {VERSION_MIN} or later: {where}; install openjdk-17-jre-headless"
        )
    said = _version_text(found)
    version = version_in(said)
    if version is None or version < VERSION_MIN:
        raise EnvironmentFailed(
            f"--target apache needs Java {VERSION_MIN} or later: {found} says {said!r:.200}"
        )
    return found


def version_in(said: str) -> int | None:
    """The major version in what `java -version` says; 1.8 is 8."""
    match = _VERSION.search(said)
    return int(match[1]) if match else None


def _version_text(command: str) -> str:
    """What `java -version` says. Raises EnvironmentFailed."""
    try:
        done = subprocess.run(
            [command, "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFailed(f"{command} -version failed: {error}") from error
    return (done.stderr or done.stdout).strip()
