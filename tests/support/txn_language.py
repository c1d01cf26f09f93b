"""Transactions in a line each: `0 ok x+1@0 y?1@0,2@1` is process 0, type, a send of 1 to x that went to offset 0, a
poll of y.

Types are ok, fail, info and open (never completed). A send without @ has no known offset. `begin 0` before it begins
the transaction of process 0 at that line; otherwise it begins where it ends.
"""

from __future__ import annotations

from typing import Any

from staticfire.checkers.model.history import Op


def txns(*lines: str) -> list[Op]:
    """Parse a history. Raises ValueError on a word that is not in the language."""
    begun: set[int] = set()
    ops: list[Op] = []
    for line in lines:
        first, second, *words = line.split()
        if first == "begin":
            begun.add(int(second))
            _add(ops, int(second), "invoke", [])
            continue
        process = int(first)
        mops = [_mop(word) for word in words]
        if process not in begun:
            _add(ops, process, "invoke", mops)
        begun.discard(process)
        if second != "open":
            _add(ops, process, second, mops)
    return ops


def _add(ops: list[Op], process: int, type_: str, mops: list[Any]) -> None:
    index = len(ops)
    ops.append(
        Op(
            index=index,
            time_ns=index * 1_000_000,
            process=process,
            type=type_,  # type: ignore[arg-type]  # a wrong one fails in the checker under test
            f="txn",
            value={"mops": mops},
        )
    )


def _mop(word: str) -> list[Any]:
    if "+" in word:
        key, _, sent = word.partition("+")
        value, _, offset = sent.partition("@")
        return ["send", key, [int(offset), int(value)] if offset else int(value)]
    key, mark, polled = word.partition("?")
    if not mark:
        raise ValueError(f"{word!r} is neither a send (x+1@0) nor a poll (x?1@0,2@1)")
    pairs = (pair.split("@") for pair in polled.split(",") if pair)
    return ["poll", {key: [[int(offset), int(value)] for value, offset in pairs]}]
