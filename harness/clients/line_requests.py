"""What each kind of client can be asked over the line protocol, and what the requests hold."""

from __future__ import annotations

from collections.abc import Mapping

from harness.clients.line_port import Check
from harness.clients.lines import (
    FLAG,
    LIST,
    NUMBER,
    TEXT,
    WHOLE,
    Kind,
    LineError,
    check_fields,
    check_value,
)
from harness.clients.port import Request

Fields = Mapping[str, Kind]

MESSAGE: Fields = {"key": TEXT, "size": WHOLE}
PRODUCER: Mapping[str, Fields] = {
    "open": {},
    "send": {"topic": TEXT, **MESSAGE},
    "send_batch": {"topic": TEXT, "messages": LIST},
}
CONSUMER: Mapping[str, Fields] = {
    "open": {},
    "slow_listener": {"delay_s": NUMBER},
    "failing_listener": {"share": NUMBER},
    "listener_counters": {},
}
OPTIONAL: Mapping[str, Fields] = {"send": {"one_way": FLAG, "broker": TEXT, "queue": WHOLE}}


def checker(role: str, known: Mapping[str, Fields]) -> Check:
    """A check of requests against a table of f and its fields; other fields may be there."""

    def check(request: Request) -> None:
        f = request["f"]
        if f not in known:
            raise LineError(f"{f!r:.80} is no request; the {role} knows {', '.join(known)}")
        check_fields(f, request, known[f], OPTIONAL.get(f))
        for message in request["messages"] if f == "send_batch" else ():
            check_value("a message of send_batch", message, (dict,))
            check_fields("a message of send_batch", message, MESSAGE)
        if ("broker" in request) != ("queue" in request) and f == "send":
            raise LineError("send has only one of 'broker' and 'queue'; give both or none")

    return check
