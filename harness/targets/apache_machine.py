"""Checks a machine for Apache RocketMQ, with one command, before the harness makes anything there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from staticfire.harness.targets.java import VERSION_TIMEOUT_S, check_java

VERSION_MIN = (4, 9)
ALLOWED = "the folder of an unpacked Apache RocketMQ 4.9 or 5"
KILLED_AFTER_S = 2  # seconds after which Java is killed if it ignores SIGTERM
_VERSION = re.compile(r"rocketmq-broker-((\d+)\.(\d+)\b.*)\.jar")

# Prints facts, one a line, and then the output of Java. $1 is the folder of the distribution.
_ASK = """\
[ -d "$1" ] && echo folder
for jar in "$1"/lib/rocketmq-*.jar; do [ -e "$jar" ] && echo "jar ${jar##*/}"; done
java=$(command -v "${JAVA_HOME:+$JAVA_HOME/bin/}java") || exit 0
echo "java $java"
said=$(timeout --kill-after="$3" "$2" "$java" -version 2>&1 < /dev/null)
echo "status $?"
echo said
echo "$said"
"""


class DistributionError(ValueError):
    """`--home` holds no distribution of RocketMQ; the text is one sentence."""


def question(home: str, timeout_s: float = VERSION_TIMEOUT_S) -> tuple[str, ...]:
    """Return the command that collects a machine's facts for `MachineFacts.read`. `timeout_s` bounds Java's run."""
    return ("sh", "-c", _ASK, "sh", home, f"{timeout_s:g}", f"{KILLED_AFTER_S:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """The distribution and the Java on one machine.

    Attributes:
        has_folder: whether the folder of the distribution is there.
        jars: names of RocketMQ's jars in its lib.
        java: the command of Java; empty if there is none.
        status: exit status of `java -version`.
        said: output of `java -version`.
    """

    has_folder: bool
    jars: tuple[str, ...]
    java: str
    status: int
    said: str

    @classmethod
    def read(cls, answer: str) -> MachineFacts:
        """Read the output of the command `question`."""
        facts, _, said = answer.partition("\nsaid\n")
        found: dict[str, list[str]] = {}
        for line in facts.splitlines():
            name, _, value = line.partition(" ")
            found.setdefault(name, []).append(value)
        return cls(
            has_folder="folder" in found,
            jars=tuple(found.get("jar", ())),
            java=found.get("java", [""])[0],
            status=int(found.get("status", ["0"])[0]),
            said=said.strip(),
        )

    @property
    def version(self) -> str:
        """The version of RocketMQ, such as 4.9.8. The machine must have passed `check_machine`."""
        match = _VERSION.fullmatch(_brokers(self.jars)[0])
        assert match is not None, "check_machine has looked"
        return match[1]


def check_machine(facts: MachineFacts, home: str, where: str = "") -> None:
    """Raises DistributionError unless a broker and a name server of RocketMQ 4.9 or 5 are in `home`/lib.

    Raises EnvironmentFailed for Java, see `check_java`. `where` is the machine, as there.
    """
    if not facts.has_folder:
        raise DistributionError(
            f"--home is {home!r}, and there is no such folder{where}; allowed: {ALLOWED}"
        )
    for wanted in ("rocketmq-broker", "rocketmq-namesrv"):
        if not any(name.startswith(f"{wanted}-") for name in facts.jars):
            raise DistributionError(
                f"--home is {home!r}, which has no lib/{wanted}-*.jar{where}; "
                f"allowed: {ALLOWED} (binaries, not sources)"
            )
    [broker, *others] = _brokers(facts.jars)
    version = _VERSION.fullmatch(broker)
    if others or version is None or (int(version[2]), int(version[3])) < VERSION_MIN:
        raise DistributionError(
            f"--home is {home!r}, which has lib/{', '.join([broker, *others])}{where}; "
            "allowed: one version of Apache RocketMQ, 4.9 or 5"
        )
    check_java(facts.java, facts.status, facts.said, where)


def _brokers(jars: Sequence[str]) -> list[str]:
    return sorted(name for name in jars if name.startswith("rocketmq-broker-"))
