"""Wrongs of transactions that send and poll: the examples of the catalogue, in the middle of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from staticfire.checkers.model.history import Op
from tests.checkers.mutations.kinds import KINDS, plant_of
from tests.checkers.mutations.model import Mutation, NoSuchSite, S
from tests.checkers.mutations.planting import Planting
from tests.support.txn_language import txns

PROCESS = 80_000
STEP_NS = 5_000_000

# Name -> what is planted, and the transactions, in the language of tests/support/txn_language.py.
TXN_KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "txn_g1a": ("G1a", "a transaction polls what a failed one sent", ("0 fail x+1", "1 ok x?1@0")),
    "txn_g1b": (
        "G1b",
        "a transaction sees a part of another one and misses some of it in between",
        ("0 ok x+1@0 x+2@1", "1 ok x+3@2", "2 ok x?1@0,3@2"),
    ),
    "txn_precommitted_read": (
        "precommitted_read",
        "a transaction polls its own send",
        ("0 ok x+1@0 x?1@0",),
    ),
    "txn_g0": (
        "G0",
        "two transactions lie in two logs in opposite orders",
        ("begin 0", "begin 1", "0 ok x+1@0 y+4@1", "1 ok x+2@1 y+3@0"),
    ),
    "txn_g0_process": (
        "G0-process",
        "a process's transactions lie in the opposite order",
        ("0 ok x+1@1", "0 ok x+2@0"),
    ),
    "txn_g0_realtime": (
        "G0-realtime",
        "two transactions lie in the opposite order of time",
        ("0 ok x+1@1", "1 ok x+2@0"),
    ),
    "txn_g1c": (
        "G1c",
        "two transactions poll what the other one sent",
        ("begin 0", "begin 1", "0 ok x+1@0 y?2@0", "1 ok y+2@0 x?1@0"),
    ),
    "txn_g1c_process": (
        "G1c-process",
        "a process polls what it sends later",
        ("0 ok x?1@0", "0 ok x+1@0"),
    ),
    "txn_g1c_realtime": (
        "G1c-realtime",
        "a value is polled before its transaction began",
        ("0 ok x?1@0", "1 ok x+1@0"),
    ),
    "txn_g_single": (
        "G-single",
        "a transaction sees one send of another one and misses the other",
        ("2 ok y+0@0", "begin 0", "begin 1", "0 ok x+1@0 y+2@1", "1 ok x?1@0 y?0@0"),
    ),
    "txn_g_single_process": (
        "G-single-process",
        "a process misses what it sent before",
        ("9 ok x+1@0", "0 ok x+2@1", "0 ok x?1@0"),
    ),
    "txn_g_single_realtime": (
        "G-single-realtime",
        "a poll misses what was sent before it began",
        ("9 ok x+1@0", "0 ok x+2@1", "1 ok x?1@0"),
    ),
    "txn_g2": (
        "G2",
        "two transactions miss what the other one sent",
        ("9 ok x+1@0 y+1@0", "begin 0", "begin 1", "0 ok x?1@0 y+2@1", "1 ok y?1@0 x+2@1"),
    ),
    "txn_g2_process": (
        "G2-process",
        "two transactions miss sends, one of them of its own process",
        ("9 ok x+0@0 y+0@0", "begin 1", "0 ok x+1@1", "0 ok y?0@0", "1 ok y+1@1 x?0@0"),
    ),
    "txn_g2_realtime": (
        "G2-realtime",
        "two transactions miss sends, one of them what had ended before",
        ("9 ok x+0@0 y+0@0", "begin 1", "0 ok x+1@1", "2 ok y?0@0", "1 ok y+1@1 x?0@0"),
    ),
    "txn_half_lost": (
        "lost_write",
        "one half of a transaction is polled, and the other half is passed over",
        ("0 info x+1 y+1", "1 ok y+2@1", "2 ok x?1@0", "2 ok y?2@1"),
    ),
    "txn_acked_here_seen_there": (
        "txn_duplicate",
        "a send acknowledged at 1 is polled at 3",
        ("0 ok x+1@1", "1 ok x?1@3"),
    ),
    "txn_order_within_sends": (
        "txn_nonmonotonic_send",
        "the sends of one transaction lie in the opposite order",
        ("0 ok x+1@1 x+2@0",),
    ),
    "txn_order_within_polls": (
        "txn_nonmonotonic_poll",
        "one poll goes back",
        ("0 ok x+1@0", "0 ok x+2@1", "1 ok x?2@1,1@0"),
    ),
    "txn_lost": (
        "lost_write",
        "a poll goes on behind a value that was acknowledged",
        ("0 ok x+1@0", "0 ok x+2@1", "0 ok x+3@2", "1 ok x?1@0", "1 ok x?3@2"),
    ),
    "txn_phantom": (
        "txn_phantom",
        "a poll brings a value that was never sent",
        ("0 ok x+1@0", "1 ok x?1@0,9@1"),
    ),
    "txn_two_values_at_one_offset": (
        "txn_inconsistent_offsets",
        "two values are polled at one offset",
        ("0 ok x+1@0", "1 ok x+2", "2 ok x?1@0", "3 ok x?2@0"),
    ),
}


def plant_txns(draft: Planting, lines: Sequence[str]) -> None:
    """Put transactions into the run, at a place of that site."""
    for _ in range(40):
        begin_ns = draft.rng.randrange(S, draft.run.end_ns)
        if draft.is_here(begin_ns):
            _with_txns(draft, begin_ns, txns(*lines))
            return
    raise NoSuchSite


def _with_txns(draft: Planting, begin_ns: int, ops: Sequence[Op]) -> None:
    first = PROCESS + 100 * draft.rng.randrange(50)
    for n, op in enumerate(ops):
        draft.insert(replace(op, time_ns=begin_ns + n * STEP_NS, process=first + op.process))


for _name, (_aim, _what, _lines) in TXN_KINDS.items():
    _plant = plant_of(partial(plant_txns, lines=_lines))
    KINDS.mutations.append(Mutation(name=_name, aim=_aim, what=_what, plant=_plant))
