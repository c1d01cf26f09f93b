"""Starts Java on a machine, and checks that its version is recent enough for RocketMQ."""

from __future__ import annotations

import re

from staticfire.harness.machines.errors import EnvironmentFailed

VERSION_MIN = 8
VERSION_TIMEOUT_S = 20
PACKAGE = "openjdk-17-jre-headless"
# The machine's shell finds Java, in JAVA_HOME there or on its PATH.
JAVA = ("sh", "-c", 'exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@"', "java")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_TIMED_OUT = (
    124,
    137,
)  # exit statuses of timeout(1): the command ended after SIGTERM; the command was killed
_SAID_MAX = 200  # characters


def check_java(command: str, status: int, said: str, where: str) -> None:
    """Check Java by the output of `java -version`.

    Args:
        command: the command that was found; empty if there was none.
        status: its exit status.
        where: the machine as the continuation of a sentence, such as " on root@a:22"; empty for this one.

    Raises EnvironmentFailed.
    """
    if wrong := _what_is_wrong(command, status, said):
        raise EnvironmentFailed(
            f"--target apache needs Java {VERSION_MIN} or later{where}: {wrong}; "
            f"install {PACKAGE} there, or let JAVA_HOME name another one"
        )


def version_in(said: str) -> int | None:
    """Return the major version in the output of `java -version`; 1.8 is 8."""
    match = _VERSION.search(said)
    return int(match[1]) if match else None


def _what_is_wrong(command: str, status: int, said: str) -> str:
    """Return the error; empty if Java will do."""
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
