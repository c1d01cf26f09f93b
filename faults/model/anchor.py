"""A moment of a plan that is an event instead of a time, such as the answer to a send or the flush that follows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from staticfire.faults.errors import FaultError

DELAY_MS_MAX = 3_600_000.0
NUMBER_MAX = 10**9
# Each event with its subject. Only the simulation can observe DISK_EVENTS.
EVENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "send": ("key",),  # the producer begins to send the message
        "ack": ("key",),  # the producer gets the answer
        "delivery": ("key",),  # a listener gets the message
        "append": ("node", "key"),  # the node has written the message to its log, not yet durably
        "flush": ("node", "key"),  # the fsync of that file begins
        "sync": ("node",),  # any fsync of the node begins
        "struck": ("fault",),  # another fault of the plan has been fired
        "healed": ("fault",),
    }
)
DISK_EVENTS = frozenset({"append", "flush", "sync"})
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "event": ((str,), "text"),
    "key": ((str,), "text"),
    "node": ((str,), "text"),
    "fault": ((int,), "a whole number"),
    "number": ((int,), "a whole number"),
    "delay_ms": ((int, float), "a number"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """An event, and the delay after it.

    Attributes:
        event: one of EVENTS.
        key: key of a message.
        node: the node at which the event happens.
        fault: id of another fault of the plan.
        number: which occurrence of the event counts, from 1.
        delay_ms: milliseconds from the event to the fault.
    """

    event: str
    key: str = ""
    node: str = ""
    fault: int = -1
    number: int = 1
    delay_ms: float = 0.0

    def __str__(self) -> str:
        of = [str(getattr(self, name)) for name in EVENTS[self.event]]
        number = f"{self.event} {self.number}" if self.number > 1 else self.event
        delay = f"{self.delay_ms:g} ms after " if self.delay_ms else ""
        return f"{delay}{number} of {' on '.join(reversed(of))}"

    def to_data(self) -> dict[str, object]:
        """Return a table for TOML and JSON, without default values."""
        row: dict[str, Any] = {"event": self.event}
        row |= {name: getattr(self, name) for name in EVENTS[self.event]}
        if self.number != 1:
            row["number"] = self.number
        if self.delay_ms:
            row["delay_ms"] = self.delay_ms
        return row


def read_anchor(row: Mapping[str, Any], entry: str) -> Anchor:
    """Read an anchor from a table of a file. Raises FaultError; `entry` names the table in its text."""
    for name, value in row.items():
        if name not in _TYPES:
            raise FaultError(
                f"after of {entry} has an unknown entry {name!r:.40}; there are: {', '.join(_TYPES)}"
            )
        types, words = _TYPES[name]
        if not isinstance(value, types) or isinstance(value, bool):
            raise FaultError(f"{name} of {entry} is {value!r:.80}; allowed: {words}")
    event = row.get("event")
    if not isinstance(event, str) or event not in EVENTS:
        raise FaultError(f"event of {entry} is {event!r:.40}; allowed: {', '.join(EVENTS)}")
    needed = EVENTS[event]
    if missing := [name for name in needed if name not in row]:
        raise FaultError(f"after of {entry} lacks {missing[0]}; {event} needs {', '.join(needed)}")
    of_others = row.keys() & {"key", "node", "fault"} - set(needed)
    if of_others:
        raise FaultError(
            f"after of {entry} has {min(of_others)}; {event} takes {', '.join(needed)} alone"
        )
    return Anchor(**row)


def check_anchor(
    anchor: Anchor, entry: str, servers: Collection[str], others: Collection[int]
) -> None:
    """Raise FaultError for an unknown node, another fault that is not in the plan, or a number out of its bounds.

    Args:
        entry: the entry of the plan, for the error's text.
        servers: nodes with a disk.
        others: ids of the other faults of the plan.
    """
    if "node" in EVENTS[anchor.event] and anchor.node not in servers:
        raise FaultError(f"node of {entry} is {anchor.node!r:.80}; allowed: {', '.join(servers)}")
    if "fault" in EVENTS[anchor.event] and anchor.fault not in others:
        allowed = ", ".join(map(str, others)) or "none: no other fault is planned"
        raise FaultError(f"fault of {entry} is {anchor.fault}; allowed: {allowed}")
    if "key" in EVENTS[anchor.event] and not anchor.key:
        raise FaultError(f"key of {entry} is empty; allowed: the key of a message")
    if not 1 <= anchor.number <= NUMBER_MAX:
        raise FaultError(f"number of {entry} is {anchor.number}; allowed: 1 to {NUMBER_MAX}")
    if not 0 <= anchor.delay_ms <= DELAY_MS_MAX:
        raise FaultError(
            f"delay_ms of {entry} is {anchor.delay_ms:g}; allowed: 0 to {DELAY_MS_MAX:.0f}"
        )
