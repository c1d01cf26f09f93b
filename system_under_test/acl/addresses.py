"""Patterns of addresses that need no signature (RocketMQ: RemoteAddressStrategyFactory).

`*`, one address, several with commas, `10.0.0.{1,2}`, `10.0.0.*`, `10.0.1-9.*`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

IsWhite = Callable[[str], bool]

_BRACES = re.compile(r"([^{}]*)\{([^{}]*)\}")
_PART = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?|\*")
_PARTS = 4  # of an IPv4 address
_PART_MAX = 255


class BadPattern(ValueError):
    """A pattern is malformed, or could not match what its author meant."""


def make_matcher(pattern: str) -> IsWhite:
    """A predicate that holds for the addresses that match. Raises BadPattern."""
    pattern = pattern.strip()
    if not pattern:
        return lambda _: False
    if pattern in ("*", "*.*.*.*"):
        return lambda _: True
    matchers = [_one(single) for single in _expanded(pattern)]
    return lambda address: any(matches(address) for matches in matchers)


def _expanded(pattern: str) -> list[str]:
    braces = _BRACES.fullmatch(pattern)
    if braces is not None:
        return [braces[1] + last.strip() for last in braces[2].split(",")]
    return [single.strip() for single in pattern.split(",") if single.strip()]


def _one(pattern: str) -> IsWhite:
    if ":" in pattern:
        if "*" in pattern or "-" in pattern:
            raise BadPattern(f"{pattern!r} is a range of IPv6 addresses; single ones are allowed")
        return lambda address: address.lower() == pattern.lower()
    ranges = [_range(part, pattern) for part in pattern.split(".")]
    if len(ranges) != _PARTS:
        raise BadPattern(f"{pattern!r} has {len(ranges)} parts; {_PARTS} are needed")

    def matches(address: str) -> bool:
        parts = address.split(".")
        return len(parts) == _PARTS and all(
            part.isdecimal() and low <= int(part) <= high
            for part, (low, high) in zip(parts, ranges, strict=True)
        )

    return matches


def _range(part: str, pattern: str) -> tuple[int, int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise BadPattern(f"{pattern!r} has the part {part!r}; numbers, ranges and * are allowed")
    if match[1] is None:
        return 0, _PART_MAX
    low, high = int(match[1]), int(match[2] or match[1])
    if not low <= high <= _PART_MAX:
        raise BadPattern(f"{pattern!r} has the part {part!r}; 0 to {_PART_MAX} are allowed")
    return low, high
