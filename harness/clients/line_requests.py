"""The requests that each kind of client takes over the line protocol, and their fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from staticfire.checkers.model.message_ranges import is_plain
from staticfire.checkers.op_kinds.catalogue import requests_of
from staticfire.checkers.op_kinds.fields import TEXT, Fields
from staticfire.checkers.op_kinds.message_fields import TRANSACTION_STATES
from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.harness.accounts import PLAIN
from staticfire.harness.clients.line_port import Check
from staticfire.harness.clients.lines import (
    LineError,
    check_declared,
    check_items,
    check_range,
    check_value,
)
from staticfire.harness.clients.port import Request

PRODUCER: Final = requests_of("producer")
CONSUMER: Final = requests_of("consumer")


def checker(role: str, known: Mapping[str, Fields], accounts: Collection[str] = ()) -> Check:
    """Return a check of requests against a table of f and its fields; it allows other fields.

    `accounts` are the names that a send may have.
    """

    def check(request: Request) -> None:
        f = request["f"]
        if f not in known:
            raise LineError(f"{f!r:.80} is no request; the {role} knows {', '.join(known)}")
        check_declared(f, request, known[f])
        _check_message(f, request, known[f])
        objects = known[f]["messages"].objects if f == "send_batch" else None
        if objects is not None:
            check_items("a message of send_batch", request["messages"], known[f]["messages"])
            for message in request["messages"]:
                _check_message("a message of send_batch", message, objects)
        if f == SEND_MANY and not is_plain(request["key"]):
            raise LineError(
                f"'key' of send_many is {request['key']!r:.80}; allowed is p<process>-<n>, such as p3-98"
            )
        if f == "send":
            _check_send(request)
            if "account" in request and request["account"] not in (*accounts, PLAIN):
                allowed = ", ".join((*accounts, PLAIN))
                raise LineError(f"'account' is {request['account']!r:.40}; allowed are {allowed}")
        elif f == "transact":
            _check_transaction(request)

    return check


def _check_message(what: str, fields: Request, declared: Fields) -> None:
    """Check numbers and properties of a request, or of one message of a batch. Raises LineError."""
    for name, field in declared.items():
        if field.is_bounded and name in fields:
            whose = f"{name!r} of {what}" if name == "size" else repr(name)
            check_range(whose, fields[name], field)
    for name, value in fields.get("properties", {}).items() if "properties" in declared else ():
        check_value(f"the property {name!r:.40}", value, TEXT)


def _check_send(request: Request) -> None:
    if ("broker" in request) != ("queue" in request):
        raise LineError("send has only one of 'broker' and 'queue'; give both or none")
    if "sharding_key" in request and ("queue" in request or request.get("one_way")):
        raise LineError("send has 'sharding_key' with 'queue' or 'one_way'; give one of them")
    if request.get("async") and not request.keys().isdisjoint(("queue", "sharding_key", "one_way")):
        raise LineError(
            "send has 'async' with 'queue', 'sharding_key' or 'one_way'; give one of them"
        )


def _check_transaction(request: Request) -> None:
    for state in (request["state"], *request.get("answers", ())):
        if state not in TRANSACTION_STATES:
            allowed = ", ".join(TRANSACTION_STATES)
            raise LineError(f"a state of transact is {state!r:.80}; allowed are {allowed}")
