"""What each kind of client can be asked over the line protocol, and what the requests hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from staticfire.checkers.model.message_ranges import MANY_MAX, SEND_MANY, is_plain
from staticfire.harness.accounts import PLAIN
from staticfire.harness.clients.line_port import Check
from staticfire.harness.clients.lines import (
    FLAG,
    LIST,
    NUMBER,
    OBJECT,
    TEXT,
    WHOLE,
    Kind,
    LineError,
    check_fields,
    check_value,
)
from staticfire.harness.clients.port import GO_ON, Request

Fields = Mapping[str, Kind]

MESSAGE: Fields = {"key": TEXT, "size": WHOLE}
PRODUCER: Mapping[str, Fields] = {
    "open": {},
    "send": {"topic": TEXT, **MESSAGE},
    "send_batch": {"topic": TEXT, "messages": LIST},
    SEND_MANY: {"topic": TEXT, "count": WHOLE, **MESSAGE},
    "transact": {"topic": TEXT, **MESSAGE, "state": TEXT},
    "request": {"topic": TEXT, **MESSAGE},
}
CONSUMER: Mapping[str, Fields] = {
    "open": {},
    "slow_listener": {"delay_s": NUMBER},
    "failing_listener": {"share": NUMBER},
    "listener_counters": {},
    GO_ON: {"key": TEXT},
}
MESSAGE_OPTIONAL: Fields = {"tag": TEXT, "delay_level": WHOLE, "properties": OBJECT}
OPTIONAL: Mapping[str, Fields] = {
    "send": {
        "one_way": FLAG,
        "async": FLAG,
        "broker": TEXT,
        "queue": WHOLE,
        "sharding_key": TEXT,
        "padding": WHOLE,
        "account": TEXT,
        **MESSAGE_OPTIONAL,
    },
    "transact": {"answers": LIST, "check_after_s": WHOLE, **MESSAGE_OPTIONAL},
    "request": {"timeout_s": NUMBER, **MESSAGE_OPTIONAL},
    "failing_listener": {"tries": WHOLE, "delay_level": WHOLE},
}
TRANSACTION_STATES = ("commit", "rollback", "unknown")
SIZE_MAX = 64 << 20  # of a body; brokers take 4 MiB
PADDING_MAX = 1 << 20
DELAY_LEVELS = range(1, 19)


def checker(role: str, known: Mapping[str, Fields], accounts: Collection[str] = ()) -> Check:
    """A check of requests against a table of f and its fields; other fields may be there.

    `accounts` are the names that a send may give.
    """

    def check(request: Request) -> None:
        f = request["f"]
        if f not in known:
            raise LineError(f"{f!r:.80} is no request; the {role} knows {', '.join(known)}")
        check_fields(f, request, known[f], OPTIONAL.get(f))
        for message in request["messages"] if f == "send_batch" else ():
            check_value("a message of send_batch", message, (dict,))
            optional = {**MESSAGE_OPTIONAL, "topic": TEXT}
            check_fields("a message of send_batch", message, MESSAGE, optional)
            _check_size("a message of send_batch", message["size"])
            _check_message(message)
        if "size" in known[f]:
            _check_size(f, request["size"])
        if f == SEND_MANY:
            _check_many(request)
        elif f == "send":
            _check_send(request)
            if "account" in request and request["account"] not in (*accounts, PLAIN):
                allowed = ", ".join((*accounts, PLAIN))
                raise LineError(f"'account' is {request['account']!r:.40}; allowed are {allowed}")
        elif f == "transact":
            _check_transaction(request)

    return check


def _check_size(what: str, size: int) -> None:
    if not 0 <= size <= SIZE_MAX:
        raise LineError(f"'size' of {what} is {size}; allowed are 0 to {SIZE_MAX}")


def _check_many(request: Request) -> None:
    if not 1 <= request["count"] <= MANY_MAX:
        raise LineError(f"'count' is {request['count']}; allowed are 1 to {MANY_MAX}")
    if not is_plain(request["key"]):
        raise LineError(
            f"'key' of send_many is {request['key']!r:.80}; allowed is p<process>-<n>, such as p3-98"
        )


def _check_send(request: Request) -> None:
    if ("broker" in request) != ("queue" in request):
        raise LineError("send has only one of 'broker' and 'queue'; give both or none")
    if "sharding_key" in request and ("queue" in request or request.get("one_way")):
        raise LineError("send has 'sharding_key' with 'queue' or 'one_way'; give one of them")
    if request.get("async") and not request.keys().isdisjoint(("queue", "sharding_key", "one_way")):
        raise LineError(
            "send has 'async' with 'queue', 'sharding_key' or 'one_way'; give one of them"
        )
    if not 0 <= request.get("padding", 0) <= PADDING_MAX:
        raise LineError(f"'padding' is {request['padding']}; allowed are 0 to {PADDING_MAX}")
    _check_message(request)


def _check_transaction(request: Request) -> None:
    for state in (request["state"], *request.get("answers", ())):
        if state not in TRANSACTION_STATES:
            allowed = ", ".join(TRANSACTION_STATES)
            raise LineError(f"a state of transact is {state!r:.80}; allowed are {allowed}")
    _check_message(request)


def _check_message(message: Request) -> None:
    level = message.get("delay_level", DELAY_LEVELS[0])
    if level not in DELAY_LEVELS:
        raise LineError(f"'delay_level' is {level}; allowed are 1 to {DELAY_LEVELS[-1]}")
    for name, value in message.get("properties", {}).items():
        check_value(f"the property {name!r:.40}", value, TEXT)
