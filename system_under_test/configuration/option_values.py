"""Parses the values of options: each parser raises ValueError with what is allowed as its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import Any

from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.remoting.address import parse_address
from staticfire.system_under_test.store.delay_levels import DelayLevels

NAME_LENGTH_MAX = 255
ASSUMED_MEMORY_BYTES = 15 << 29
QUEUE_ENTRY_SIZE = 20  # bytes in a consume queue


def text(value: str) -> str:
    if not value:
        raise ValueError("it must not be empty")
    if not value.isprintable():
        raise ValueError("text without control characters is allowed")
    return value


def name(value: str) -> str:
    """A name that every registration carries: at most NAME_LENGTH_MAX characters."""
    if len(value) > NAME_LENGTH_MAX:
        raise ValueError(f"up to {NAME_LENGTH_MAX} characters are allowed")
    return text(value)


def yes_or_no(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true and false are allowed")
    return value.lower() == "true"


def integer(low: int, high: int) -> Callable[[str], int]:
    """A parser of decimal integers from `low` to `high`."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,19}", value) or not low <= int(value) <= high:
            raise ValueError(f"a number from {low} to {high} is allowed")
        return int(value)

    return parse


def queue_file_size(value: str) -> int:
    """Bytes of one file of a consume queue: whole entries."""
    size = integer(QUEUE_ENTRY_SIZE, 1 << 30)(value)
    if size % QUEUE_ENTRY_SIZE:
        raise ValueError(f"a multiple of {QUEUE_ENTRY_SIZE} is allowed")
    return size


class milliseconds:  # noqa: N801  used like the functions beside it
    """A parser of milliseconds; the field is in seconds."""

    def __init__(self, low: int, high: int) -> None:
        self._parse = integer(low, high)

    def __call__(self, value: str) -> float:
        return self._parse(value) / 1000

    def format(self, seconds: float) -> str:
        return str(round(seconds * 1000))


class share_of_memory:  # noqa: N801
    """A parser of percentages; the field is in bytes.

    A node cannot ask how much memory its machine has: 7.5 GiB are assumed.
    """

    def __init__(self) -> None:
        self._parse = integer(0, 100)

    def __call__(self, value: str) -> int:
        return self._parse(value) * ASSUMED_MEMORY_BYTES // 100

    def format(self, size_bytes: int) -> str:
        return str(round(size_bytes * 100 / ASSUMED_MEMORY_BYTES))


def hours(value: str) -> tuple[int, ...]:
    """`04;16`: hours of the day."""
    parse = integer(0, 23)
    return tuple(parse(part.strip()) for part in value.split(";"))


def disk_used_max(value: str) -> int:
    """Percent; like RocketMQ, raises smaller values to 10 and lowers larger ones to 95."""
    return min(95, max(10, integer(-(1 << 31), (1 << 31) - 1)(value)))


def ratio(value: str) -> float:
    if not re.fullmatch(r"0?\.[0-9]{1,9}|1(\.0{1,9})?|0", value):
        raise ValueError("a number from 0 to 1 is allowed")
    return float(value)


class one_of:  # noqa: N801
    """A parser of names that stand for values."""

    def __init__(self, choices: Mapping[str, object]) -> None:
        self._choices = choices

    def __call__(self, value: str) -> object:
        if value not in self._choices:
            raise ValueError(f"{', '.join(self._choices)} are allowed")
        return self._choices[value]

    def format(self, value: object) -> str:
        return next(name for name, choice in self._choices.items() if choice == value)


def format_value(parse: Callable[[str], object], value: Any) -> str:
    """The text from which `parse` makes this value; "" for None."""
    if isinstance(parse, milliseconds | one_of | share_of_memory):
        return parse.format(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, DelayLevels):
        return value.text
    if parse is hours:
        return ";".join(f"{hour:02}" for hour in value)
    if isinstance(value, tuple):
        return ";".join(map(str, value))
    return "" if value is None else str(value)


def required(value: str) -> str | None:
    """REQUIRED, or None for OPTIONAL: a node does not report an option whose value is None."""
    if value not in ("", "OPTIONAL", "REQUIRED"):
        raise ValueError("OPTIONAL and REQUIRED are allowed")
    return "REQUIRED" if value == "REQUIRED" else None


def names(value: str) -> tuple[str, ...]:
    """`name;name`"""
    return tuple(part.strip() for part in value.split(";") if part.strip())


def addresses(value: str) -> tuple[str, ...]:
    """`host:port;host:port`"""
    found = tuple(part.strip() for part in value.split(";") if part.strip())
    for address in found:
        parse_address(address)
    return found


def hosts(value: str) -> tuple[str, ...]:
    """`address;block`, such as `10.0.0.7;10.0.1.0/24`; empty text means every host."""
    found = names(value)
    if value and not found:
        raise ValueError("addresses and blocks such as 10.0.1.0/24 are allowed")
    for entry in found:
        try:
            ip_network(entry)
        except ValueError:
            raise ValueError(
                f"{entry!r:.80} is neither an address nor a block such as 10.0.1.0/24"
            ) from None
    return found


def allowed_names(value: str) -> tuple[str, ...]:
    """`name;name`; empty text means every name."""
    found = names(value)
    if value and not found:
        raise ValueError("names with semicolons between them are allowed")
    return found


def one_address(value: str) -> str:
    """`host:port`"""
    parse_address(value)
    return value


def reachable_host(value: str) -> str:
    """A host that clients can connect to: a broker registers the address that it listens on."""
    if value in ("0.0.0.0", "::"):
        raise ValueError("an address that clients can connect to is needed")
    return text(value)


mode = one_of({mode.value: mode for mode in Mode})
port = integer(0, 65535)
queue_capacity = integer(1, (1 << 31) - 1)
broker_port = integer(1, 65534)  # registered, so not 0; replication listens on the next port
