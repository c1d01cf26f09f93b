"""Decisions in which the hardened transaction check differs from that of RocketMQ 4.9.8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from staticfire.system_under_test.protocol.message import Message

# Not in RocketMQ: the first store time (ms) of a half message, which gets a new one each time it is put back.
FIRST_STORED_PROPERTY = "TRAN_PREPARED_STORE_TIME"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPolicy:
    """
    Attributes:
        ends_once: do not commit a half message again that is over; 4.9.8 delivers it twice.
        since_ms: returns the time from which the age of a half message counts (ms).
        waits_for_the_future: after the clock was set back, a half message may seem to be from the future, as store
        times never decrease. If True, check it once it has been here for long enough, else at once.
        counts_every_visit: count a visit of the check even if it could ask no producer (issue 8311). The check may then
        give a half message up without ever having asked a producer.
        skips_unreadable: skip a half message that cannot be read. In 4.9.8 it ends this round and every later one at
        the same offset, so that no later transaction is ever checked (issue 1568).
        asks_old_connections: the check may use the old connection of a producer that has reconnected. If the network
        swallowed the end of that connection, the producer never gets the request, but the check counts it.
        keeps_flag: keep the user flag of a half message that is put back; 4.9.8 sets it to 0.
    """

    ends_once: bool
    since_ms: Callable[[Message], int]
    waits_for_the_future: bool
    counts_every_visit: bool
    skips_unreadable: bool
    asks_old_connections: bool
    keeps_flag: bool


def first_stored_ms(message: Message) -> int:
    """When the half message was first stored, by the broker's clock (ms)."""
    text = message.properties.get(FIRST_STORED_PROPERTY, "")
    return int(text) if text.isascii() and text.isdigit() else message.store_timestamp_ms


def born_ms(message: Message) -> int:
    """When the producer made it, by the producer's clock, which may be hours wrong (ms; issue 9640)."""
    return message.born_timestamp_ms


HARDENED_TRANSACTIONS = TransactionPolicy(
    ends_once=True,
    since_ms=first_stored_ms,
    waits_for_the_future=True,
    counts_every_visit=False,
    skips_unreadable=True,
    asks_old_connections=False,
    keeps_flag=True,
)
FAITHFUL_TRANSACTIONS = TransactionPolicy(
    ends_once=False,
    since_ms=born_ms,
    waits_for_the_future=False,
    counts_every_visit=True,
    skips_unreadable=False,
    asks_old_connections=True,
    keeps_flag=False,
)
