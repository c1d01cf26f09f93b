"""Every mutation and every oddity, in the order of their modules."""

from __future__ import annotations

from importlib import import_module

from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import Kind, Mutation, Oddity

# Importing a module registers its kinds.
for _name in (
    "kinds_loss",
    "kinds_messages",
    "kinds_places",
    "kinds_causality",
    "kinds_contents",
    "kinds_deliveries",
    "kinds_order",
    "kinds_waits",
    "kinds_broadcasting",
    "kinds_groups",
    "kinds_offsets",
    "kinds_delays",
    "kinds_moves",
    "kinds_retries",
    "kinds_send_backs",
    "kinds_transactions",
    "kinds_requests",
    "kinds_refusals",
    "kinds_forwarding",
    "kinds_nodes",
    "kinds_white_box",
    "kinds_evidence",
    "kinds_routes",
    "kinds_tables",
    "kinds_resources",
    "kinds_crashes",
    "kinds_txn",
    "oddities_sends",
    "oddities_groups",
    "oddities_fields",
    "oddities_transactions",
):
    import_module(f"tests.checkers.mutations.{_name}")


def all_mutations() -> tuple[Mutation, ...]:
    return tuple(KINDS.mutations)


def all_oddities() -> tuple[Oddity, ...]:
    return tuple(KINDS.oddities)


def all_kinds() -> tuple[Kind, ...]:
    return (*KINDS.mutations, *KINDS.oddities)
