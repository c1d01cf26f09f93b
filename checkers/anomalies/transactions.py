"""Anomalies of transactions with several sends and polls, with the names that Adya and Jepsen use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from staticfire.checkers.anomalies.anomaly import Anomaly

ISOLATED = "The values of a transaction become visible together once it has committed, and never otherwise."
WRITTEN = "Each value of a committed transaction is in its log once, in order."
SERIAL = "Transactions can be put in an order that explains every send and poll."


# The variants of a phenomenon: by itself, with the order within each process, and with the order in real time.
_ORDERS = (
    ("", ""),
    ("-process", ", with the order within a process"),
    ("-realtime", ", with the order in real time"),
)


def _with_orders(
    *, name: str, title: str, meaning: str, examples: tuple[str, str, str], **rule: Any
) -> Iterator[Anomaly]:
    for (suffix, more), example in zip(_ORDERS, examples, strict=True):
        yield Anomaly(
            name=f"{name}{suffix}",
            title=f"{title}{more}",
            meaning=f"{meaning}{more}",
            example=example,
            **rule,
        )


TRANSACTIONS: Final = (
    Anomaly(
        name="G1a",
        title="aborted read",
        meaning="a transaction polled a value that a failed transaction had sent",
        promise=ISOLATED,
        example="`txn: 0 fail x+1 / 1 ok x?1@0`",
    ),
    Anomaly(
        name="G1b",
        title="intermediate read",
        meaning=(
            "a transaction polled some of the values of another one, and missed values between them"
        ),
        promise=ISOLATED,
        example="`txn: 0 ok x+1@0 x+2@1 / 1 ok x+3@2 / 2 ok x?1@0,3@2`",
    ),
    Anomaly(
        name="precommitted_read",
        title="read of its own send",
        meaning="a transaction polled its own send",
        promise=ISOLATED,
        example="`txn: 0 ok x+1@0 x?1@0`",
    ),
    Anomaly(
        name="txn_phantom",
        title="phantom value",
        meaning="a transaction polled a value that no transaction sent to that key",
        promise=ISOLATED,
        example="`txn: 0 ok x+1@0 / 1 ok x?1@0,9@1`",
    ),
    Anomaly(
        name="txn_nonmonotonic_poll",
        title="poll out of order in a transaction",
        meaning="within one poll, the offsets of a key did not ascend",
        promise=ISOLATED,
        example="`txn: 0 ok x+1@0 x+2@1 / 1 ok x?2@1,1@0`",
    ),
    Anomaly(
        name="lost_write",
        title="lost write",
        meaning=(
            "a value of a committed transaction was never polled, although a value at or above its "
            "offset was"
        ),
        promise=WRITTEN,
        example="`txn: 0 info x+1@0 y+2@0 / 1 ok y+3@1 / 2 ok x?1@0 y?3@1`",
    ),
    Anomaly(
        name="txn_duplicate",
        title="duplicate write",
        meaning="a value of a transaction is at two offsets of its log",
        promise=WRITTEN,
        example="`txn: 0 ok x+1@1 / 1 ok x?1@3`",
    ),
    Anomaly(
        name="txn_inconsistent_offsets",
        title="two values at one offset",
        meaning="two values are at one offset of a log",
        promise=WRITTEN,
        example="`txn: 0 ok x+1@0 / 1 ok x+2@0`",
    ),
    Anomaly(
        name="txn_nonmonotonic_send",
        title="sends of a transaction out of order",
        meaning="the later of two sends of one transaction to a key got the lower offset",
        promise=WRITTEN,
        example="`txn: 0 ok x+1@1 x+2@0`",
    ),
    *_with_orders(
        name="G0",
        title="write cycle",
        meaning="a cycle of neighbours in logs",
        promise=SERIAL,
        examples=(
            "`txn: begin 0 / begin 1 / 0 ok x+1@0 y+4@1 / 1 ok x+2@1 y+3@0`",
            "`txn: 0 ok x+1@1 / 0 ok x+2@0`",
            "`txn: 0 ok x+1@1 / 1 ok x+2@0`",
        ),
        hardened="allowed",
        faithful="allowed",
    ),
    *_with_orders(
        name="G1c",
        title="cycle of information",
        meaning="a cycle with a transaction that polled a value that another had sent",
        promise=SERIAL,
        examples=(
            "`txn: begin 0 / begin 1 / 0 ok x+1@0 y?2@0 / 1 ok y+2@0 x?1@0`",
            "`txn: 0 ok x?1@0 / 0 ok x+1@0`",
            "`txn: 0 ok x?1@0 / 1 ok x+1@0`",
        ),
        excuse="the cycle needs a ww edge: logs do not isolate writers from each other",
    ),
    *_with_orders(
        name="G-single",
        title="cycle with one anti-dependency",
        meaning="a cycle with one transaction that missed a value that another had sent",
        promise=SERIAL,
        examples=(
            "`txn: 2 ok y+0@0 / begin 0 / begin 1 / 0 ok x+1@0 y+2@1 / 1 ok x?1@0 y?0@0`",
            "`txn: 9 ok x+1@0 / 0 ok x+2@1 / 0 ok x?1@0`",
            "`txn: 9 ok x+1@0 / 0 ok x+2@1 / 1 ok x?1@0`",
        ),
        hardened="informational",
        faithful="informational",
    ),
    *_with_orders(
        name="G2",
        title="cycle with anti-dependencies",
        meaning="a cycle with several transactions that missed values that others had sent",
        promise=SERIAL,
        examples=(
            "`txn: 9 ok x+1@0 y+1@0 / begin 0 / begin 1 / 0 ok x?1@0 y+2@1 / 1 ok y?1@0 x+2@1`",
            "`txn: 9 ok x+0@0 y+0@0 / begin 1 / 0 ok x+1@1 / 0 ok y?0@0 / 1 ok y+1@1 x?0@0`",
            "`txn: 9 ok x+0@0 y+0@0 / begin 1 / 0 ok x+1@1 / 2 ok y?0@0 / 1 ok y+1@1 x?0@0`",
        ),
        hardened="informational",
        faithful="informational",
    ),
)
