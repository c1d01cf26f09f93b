"""Java: how a machine starts it, and whether the one that is there is recent enough for RocketMQ."""

from __future__ import annotations

import re

from staticfire.harness.machines.errors import EnvironmentFailed

VERSION_MIN = 8
VERSION_TIMEOUT_S = 20
PACKAGE = "openjdk-17-jre-headless"
# A shell finds Java on the machine itself: in JAVA_HOME there, or on its PATH.
JAVA = ("sh", "-c", 'exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@"', "java")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_TIMED_OUT = (124, 137)  # timeout(1): it was asked to end, and did; it had to be killed
_SAID_MAX = 200  # characters


def check_java(command: str, status: int, said: str, where: str) -> None:
    """Whether Java will do, by what `java -version` said.

    Args:
        command: the one that was found; empty if there was none.
        status: that it ended with.
        where: a machine as a sentence goes on with it, such as " on root@a:22"; empty for this one.

    Raises EnvironmentFailed.
    """
    if wrong := _what_is_wrong(command, status, said):
        raise EnvironmentFailed(
            f"--target apache needs Java {VERSION_MIN} or later{where}: {wrong}; "
            f"install {PACKAGE} there, or let JAVA_HOME name another one"
        )


def version_in(said: str) -> int | None:
    """The major version in what `java -version` says; 1.8 is 8."""
    match = _VERSION.search(said)
    return int(match[1]) if match else None


def _what_is_wrong(command: str, status: int, said: str) -> str:
    """Empty if nothing is."""
    if not command:
        return "JAVA_HOME has no bin/java there, or is not set and there is no java on PATH"
    if status in _TIMED_OUT:
        return f"{command} -version had not ended after {VERSION_TIMEOUT_S} s"
    if status:
        return f"{command} -version ended with status {status} and said {said!r:.{_SAID_MAX}}"
    if not said:
        return f"{command} -version said nothing"
    version = version_in(said)
    if version is None or version < VERSION_MIN:
        return f"{command} -version said {said!r:.{_SAID_MAX}}"
    return ""
