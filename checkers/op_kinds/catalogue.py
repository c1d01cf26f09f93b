"""All kinds of op by name, for the harness, the checkers, docs/client-protocol.md and its JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from staticfire.checkers.op_kinds.consumer import CONSUME_MANY, CONSUMER
from staticfire.checkers.op_kinds.fields import Fields
from staticfire.checkers.op_kinds.harness import HARNESS, OPEN
from staticfire.checkers.op_kinds.kind import CLIENTS, Form, OpKind, Role, check_kinds
from staticfire.checkers.op_kinds.producer import PRODUCER, SEND_MANY

_ALL: Final = (OPEN, *CONSUMER, *PRODUCER, *HARNESS)
check_kinds(_ALL)

OP_KINDS: Final[Mapping[str, OpKind]] = {kind.name: kind for kind in _ALL}


def requests_of(role: Role) -> Mapping[str, Fields]:
    """Return the fields of each request that the harness sends to clients of this role, by name."""
    return {
        kind.name: kind.request
        for kind in OP_KINDS.values()
        if kind.request is not None and role in kind.asked_of
    }


def recorded(*forms: Form) -> frozenset[str]:
    """Return the names in a history of all kinds of op that have one of these forms."""
    return frozenset(kind.recorded_name for kind in OP_KINDS.values() if kind.form in forms)


# The fields of each report that a client sends without a request.
REPORTED: Final[Mapping[str, Fields]] = {
    kind.name: kind.report
    for kind in OP_KINDS.values()
    if kind.report is not None and any(role in CLIENTS for role in kind.reported_by)
}
RECORDED: Final = recorded("send", "delivery", "commit", "event")
SENDS: Final = recorded("send")
DELIVERIES: Final = recorded("delivery")
# Kinds with one op for many messages, so that a history can hold millions of messages.
CONDENSED: Final = frozenset({SEND_MANY, CONSUME_MANY})
