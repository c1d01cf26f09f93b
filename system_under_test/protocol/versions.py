"""Names of versions as RocketMQ prints them (MQVersion)."""

from __future__ import annotations

FIRST = 212  # V4_0_0_SNAPSHOT; a snapshot and a release for each of 100 versions of a major one
RELEASES = 200
LAST = FIRST + 2 * RELEASES - 1  # V5_9_9


def version_name(number: int) -> str:
    """`V4_9_8` for 409; HIGHER_VERSION beyond 5.9.9, and the number itself before 4.0."""
    if number < FIRST:
        return str(number)
    if number > LAST:
        return "HIGHER_VERSION"
    major, rest = divmod(number - FIRST, RELEASES)
    minor, rest = divmod(rest, 20)
    return f"V{4 + major}_{minor}_{rest // 2}" + ("" if rest % 2 else "_SNAPSHOT")
