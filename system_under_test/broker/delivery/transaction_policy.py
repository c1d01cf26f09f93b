"""The decisions in which the hardened transaction check differs from that of RocketMQ 4.9.8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from staticfire.system_under_test.protocol.message import Message

# Ours alone: a half message that is put back gets a new store time, this is that of its first copy (ms).
FIRST_STORED_PROPERTY = "TRAN_PREPARED_STORE_TIME"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPolicy:
    """
    Attributes:
        ends_once: a half message that is over is not committed again; 4.9.8 delivers it twice.
        since_ms: from when on the age of a half message counts.
        waits_for_the_future: a half message that seems to be from the future, as log times never go back when the clock
            does, is asked about when it has been here for long enough, instead of at once.
        counts_every_visit: a visit of the check counts although no producer was asked (issue 8311); such a message is
            given up without a producer ever having been asked.
        skips_unreadable: a half message that cannot be read ends this round and every later one at the same place in
            4.9.8 (issue 1568): no later transaction is ever checked.
        asks_old_connections: a producer that has connected anew may be asked on the connection that it had before. If
            the network swallowed the end of that one, the producer never gets the question, and it counts.
        keeps_flag: a half message that is put back keeps its user flag; 4.9.8 sets it to 0.
    """

    ends_once: bool
    since_ms: Callable[[Message], int]
    waits_for_the_future: bool
    counts_every_visit: bool
    skips_unreadable: bool
    asks_old_connections: bool
    keeps_flag: bool


def first_stored_ms(message: Message) -> int:
    """By the broker's clock alone."""
    text = message.properties.get(FIRST_STORED_PROPERTY, "")
    return int(text) if text.isascii() and text.isdigit() else message.store_timestamp_ms


def born_ms(message: Message) -> int:
    """By the producer's clock, which may be hours wrong (issue 9640)."""
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
