"""Formats a cycle as text: each step says why one transaction must come before the next."""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.checkers.cycles.cycle_graph import Edge
from staticfire.checkers.cycles.txn_log import TxnLog


def reported(log: TxnLog, cycle: Sequence[Edge]) -> str:
    """Return one sentence for each step of a cycle, from T1 to T2 and so on, and back to T1: a contradiction."""
    name = {edge.before: f"T{number}" for number, edge in enumerate(cycle, start=1)}
    who = "; ".join(
        f"{name[number]} is op {log.txns[number].op_index} of process {log.txns[number].process}"
        for number in name
    )
    steps = [
        f"{name[edge.before]} < {name[edge.after]}, because {_reason(log, edge, name)}"
        for edge in cycle
    ]
    steps[-1] = f"but {steps[-1]}: a contradiction" if len(steps) > 1 else steps[-1]
    return f"let {who}. {'. '.join(step[0].upper() + step[1:] for step in steps)}."


def _reason(log: TxnLog, edge: Edge, name: dict[int, str]) -> str:
    before, after = name[edge.before], name[edge.after]
    at = log.offset_of.get((edge.key, edge.value))
    match edge.kind:
        case "ww":
            behind = log.offset_of.get((edge.key, edge.next_value))
            return (
                f"{before} sent {edge.value} to {edge.key} at offset {at}, and the next message there is "
                f"{edge.next_value} of {after} at {behind}"
            )
        case "wr":
            return f"{after} polled {edge.value} from {edge.key}, which {before} had sent"
        case "rw":
            return (
                f"{before} polled {edge.key} up to {edge.value} at offset {at}, and not {edge.next_value}, "
                f"which {after} sent to the place behind it"
            )
        case "process":
            return f"process {log.txns[edge.before].process} did {before} before {after}"
        case "realtime":
            ended, began = log.txns[edge.before].op_index, log.txns[edge.after].invoke_index
            return f"{before} had ended (op {ended}) before {after} began (op {began})"
