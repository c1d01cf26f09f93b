"""Faults of links: their parameters, the connections that they affect, and counters of their effects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TypeVar

from staticfire.faults.errors import FaultError

ANY_END = "*"
Choice = TypeVar("Choice", bound=StrEnum)


class LinkFaultError(FaultError):
    """A parameter of a link fault is not valid. One sentence with the value and what is allowed."""


def choice(kinds: type[Choice], what: str, value: str) -> Choice:
    """Return the member of an enum. Raises LinkFaultError for any other word."""
    if value not in list(kinds):
        allowed = ", ".join(kind.value for kind in kinds)
        raise LinkFaultError(f"{what} is {value!r:.80}; allowed: {allowed}")
    return kinds(value)


class LinkFaultKind(StrEnum):
    DELAY = "delay"  # all data arrives later, in order
    LIMIT = "limit"  # at most this many bytes a second pass
    DROP = "drop"  # data is discarded; connections stay open until the heal
    FREEZE = "freeze"  # connections are accepted; data is held back until the heal
    CUT = "cut"  # existing and new connections are reset


class Direction(StrEnum):
    UP = "up"  # from the client, which opens the connection, to the server
    DOWN = "down"
    BOTH = "both"

    def includes(self, other: Direction) -> bool:
        return self is Direction.BOTH or self is other


@dataclass(slots=True, kw_only=True, eq=False)
class LinkFault:
    """One fault on all links whose ends match `client` and `server`.

    Attributes:
        bytes: bytes that it delayed or discarded.
        pieces: frames, chunks of other streams, and ends of streams that it delayed or discarded.
        connections: connections that it cut, refused, or accepted without service.

    Raises LinkFaultError for a value that the kind does not allow.
    """

    number: int
    kind: LinkFaultKind
    client: str = ANY_END
    server: str = ANY_END
    direction: Direction = Direction.BOTH
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    bytes_per_s: int = 0
    bytes: int = field(default=0, init=False)
    pieces: int = field(default=0, init=False)
    connections: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        kind = self.kind
        _check(kind is LinkFaultKind.DELAY, "delay_ms", self.delay_ms)
        _check_not_negative("jitter_ms", self.jitter_ms, at_most=self.delay_ms)
        _check(kind is LinkFaultKind.LIMIT, "bytes_per_s", self.bytes_per_s)
        if kind is LinkFaultKind.CUT and self.direction is not Direction.BOTH:
            raise LinkFaultError(f"direction of cut is {self.direction.value!r}; allowed: both")

    @property
    def bitten(self) -> bool:
        """Whether the fault had an observed effect."""
        return self.pieces > 0 or self.connections > 0

    def strikes(self, clients: Sequence[str], servers: Sequence[str], kind: str) -> bool:
        """Whether the fault affects a link whose ends have these names; `kind` is the kind of the server."""
        is_server = self.server == kind or _matches(self.server, servers)
        return is_server and _matches(self.client, clients)

    def to_json(self) -> dict[str, object]:
        """Return the parameters and the counters as plain data."""
        shown: dict[str, object] = {
            "fault": self.number,
            "f": self.kind.value,
            "client": self.client,
            "server": self.server,
            "direction": self.direction.value,
        }
        if self.kind is LinkFaultKind.DELAY:
            shown |= {"delay_ms": self.delay_ms, "jitter_ms": self.jitter_ms}
        if self.kind is LinkFaultKind.LIMIT:
            shown["bytes_per_s"] = self.bytes_per_s
        counted = {"bytes": self.bytes, "pieces": self.pieces, "connections": self.connections}
        return shown | counted

    def count(self, size: int) -> None:
        """Count an affected piece of `size` bytes."""
        self.bytes += size
        self.pieces += 1


def _check(is_needed: bool, name: str, value: float) -> None:
    if is_needed and not 0 < value < float("inf"):
        raise LinkFaultError(f"{name} is {value}; allowed: above 0")
    if not is_needed and value:
        raise LinkFaultError(f"{name} is {value}; only {_OWNER[name]} has it")


_OWNER = {"delay_ms": "delay", "bytes_per_s": "limit"}


def _check_not_negative(name: str, value: float, *, at_most: float) -> None:
    if not 0 <= value <= at_most:
        raise LinkFaultError(f"{name} is {value}; allowed: 0 to the delay, {at_most}")


def _matches(pattern: str, names: Iterable[str]) -> bool:
    matcher = _matcher(pattern)
    return any(matcher.fullmatch(name) for name in names)


@cache
def _matcher(pattern: str) -> re.Pattern[str]:
    """Compile a pattern. `*` stands for any text, any other character for itself: client ids may hold brackets."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Effect:
    """The combined effect of all faults on one direction of one connection."""

    cuts: tuple[LinkFault, ...] = ()
    drops: tuple[LinkFault, ...] = ()
    freezes: tuple[LinkFault, ...] = ()
    delays: tuple[LinkFault, ...] = ()
    limits: tuple[LinkFault, ...] = ()
    delay_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: int = 0  # 0: no limit


NO_EFFECT = Effect()


def effect_of(faults: Iterable[LinkFault], direction: Direction) -> Effect:
    """Combine the faults of one direction: delays add up, and the smallest limit counts."""
    found = [fault for fault in faults if fault.direction.includes(direction)]
    if not found:
        return NO_EFFECT
    delays, limits = _of(found, LinkFaultKind.DELAY), _of(found, LinkFaultKind.LIMIT)
    return Effect(
        cuts=_of(found, LinkFaultKind.CUT),
        drops=_of(found, LinkFaultKind.DROP),
        freezes=_of(found, LinkFaultKind.FREEZE),
        delays=delays,
        limits=limits,
        delay_s=sum(fault.delay_ms for fault in delays) / 1000,
        jitter_s=sum(fault.jitter_ms for fault in delays) / 1000,
        bytes_per_s=min((fault.bytes_per_s for fault in limits), default=0),
    )


def _of(faults: Iterable[LinkFault], kind: LinkFaultKind) -> tuple[LinkFault, ...]:
    return tuple(fault for fault in faults if fault.kind is kind)
