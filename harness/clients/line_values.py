"""What the lines of a client must hold for the checkers to make sense of them.

A client of any language writes these lines, so what it got wrong is told at once and in its words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from staticfire.checkers.model.message_contents import check_contents
from staticfire.checkers.model.message_ranges import MANY_MAX, is_plain, nth_key
from staticfire.harness.clients.lines import (
    FLAG,
    LIST,
    TEXT,
    WHOLE,
    WHOLE_OR_NULL,
    Kind,
    LineError,
    check_fields,
    check_value,
)
from staticfire.harness.clients.port import Outcome, Request

if TYPE_CHECKING:
    from staticfire.checkers.model.history import OpType

SCOPE = {"group": TEXT, "topic": TEXT}
EMITTED: dict[str, dict[str, Kind]] = {
    "open": {},
    "assign": {**SCOPE, "queues": LIST},
    "commit": {**SCOPE, "offsets": LIST},
    "consume": {**SCOPE, "broker": TEXT, "queue": WHOLE, "messages": LIST},
    "consume_many": {**SCOPE, "broker": TEXT, "queue": WHOLE, "stretches": LIST},
    "send_many": {"topic": TEXT, "key": TEXT, "count": WHOLE, "size": WHOLE},
    "check_back": {"topic": TEXT, "key": TEXT, "state": TEXT},
    "reply": {**SCOPE, "key": TEXT},
    "send_back": {**SCOPE, "broker": TEXT, "queue": WHOLE, "messages": LIST},
    "forward": {**SCOPE, "broker": TEXT, "queue": WHOLE, "originals": LIST, "key": TEXT},
    "begin": {**SCOPE, "broker": TEXT, "queue": WHOLE},
    "commit_to": {"group": TEXT, "brokers": LIST},
}
OPTIONAL: dict[str, dict[str, Kind]] = {
    "open": {"group": TEXT, "topic": TEXT, "expression": TEXT, "model": TEXT, "orderly": FLAG},
    "begin": {"offset": WHOLE_OR_NULL, "broker_id": WHOLE},
}
# The columns of the lists: broker, queue; broker, queue, offset; key, queue offset, physical offset, whether the body
# is intact, how often it was tried before; of stretches also how many messages, and bytes from one to the next. Of
# originals: the first queue offset, and how many follow each other. Of brokers that took commits: the name, the id, and
# whether what was sent to one of this name the time before has arrived.
DELIVERED: tuple[Kind, ...] = (TEXT, WHOLE, WHOLE, FLAG, WHOLE)
ROWS: dict[str, tuple[str, tuple[Kind, ...]]] = {
    "assign": ("queues", (TEXT, WHOLE)),
    "commit": ("offsets", (TEXT, WHOLE, WHOLE)),
    "commit_to": ("brokers", (TEXT, WHOLE, FLAG)),
    "consume": ("messages", DELIVERED),
    "consume_many": ("stretches", (TEXT, WHOLE, WHOLE, FLAG, WHOLE, WHOLE, WHOLE)),
    "send_back": ("messages", (TEXT, WHOLE, WHOLE)),
    "forward": ("originals", (WHOLE, WHOLE)),
}
DELIVERED_NAMES = ("key", "queue_offset", "physical_offset", "intact", "tried")
# The least values. A delayed message lies in its queue later: a send says -1. A physical offset of -1 is not known.
LEAST = {"queue": 0, "queue_offset": -1, "physical_offset": -1, "attempts": 0, "tried": 0, "id": 0}
OFFSET_MAX = 1 << 62
SENT_STRETCH = (TEXT, WHOLE, WHOLE, WHOLE, WHOLE)
PLACE: dict[str, Kind] = {"broker": TEXT, "queue": WHOLE, "queue_offset": WHOLE}
MANY: dict[str, Kind] = {"broker": TEXT, "queue": WHOLE, "stretches": LIST}
HALF: dict[str, Kind] = {"broker": TEXT, "queue": WHOLE, "state": TEXT}
PLACE_OPTIONAL: dict[str, Kind] = {
    "physical_offset": WHOLE,
    "status": TEXT,
    "attempts": WHOLE,
    "id": WHOLE,
}


def check_emitted(type: OpType, f: str, value: dict[str, Any]) -> None:
    """Raises LineError for an op that no client reports by itself, or whose value lacks something."""
    if f not in EMITTED:
        raise LineError(f"'emit' is {f!r:.80}; allowed are {', '.join(EMITTED)}")
    what = f"the value of {f}"
    check_fields(what, value, EMITTED[f], OPTIONAL.get(f, {}))
    _check_least(what, value)
    if f == "open" and type not in ("ok", "fail"):
        raise LineError(f"'type' of open is {type!r}; allowed are ok, fail")
    if f == "send_many":
        _check_count("'count' of send_many", value["count"], value["key"])
        if type == "ok" or "stretches" in value:
            _check_many(value, value["key"], value["count"])
    if f in ROWS:
        name, kinds = ROWS[f]
        for row in value[name]:
            if kinds is DELIVERED:
                row = _without_contents(row)
            _check_row(f"a row of {name!r} in {what}", row, kinds)
            if f == "consume":
                _check_least("a message of consume", dict(zip(DELIVERED_NAMES, row, strict=True)))
            if f == "consume_many":
                _check_stretch(row, count=row[5], stride=row[6])
            if f == "forward":
                _check_originals(row, value["key"])


def _without_contents(row: Any) -> Any:
    """A message of a delivery as it is without its contents, which are optional. Raises LineError."""
    if type(row) is not list or len(row) != len(DELIVERED) + 1:
        return row
    try:
        check_contents(row[-1])
    except ValueError as error:
        raise LineError(f"a message of consume: {error}") from None
    return row[:-1]


def _check_least(what: str, fields: Mapping[str, Any]) -> None:
    """Raises LineError for a number that is too low to be one of RocketMQ's."""
    for name, least in LEAST.items():
        value = fields.get(name)
        if type(value) is int and value < least:
            raise LineError(f"{name!r} of {what} is {value}; allowed are {least} and more")


def _check_row(what: str, row: Any, kinds: tuple[Kind, ...]) -> None:
    if type(row) is not list or len(row) != len(kinds):
        raise LineError(f"{what} is {row!r:.80}; expected a list of {len(kinds)}")
    for number, (item, kind) in enumerate(zip(row, kinds, strict=True)):
        check_value(f"item {number} of {what}", item, kind)


def check_result(request: Request, outcome: Outcome) -> None:
    """Raises LineError if the answer does not say what an answer to this request must say."""
    f, value = request["f"], outcome.value
    if outcome.type == "invoke":
        raise LineError(f"the answer to {f} has the type 'invoke'; allowed are ok, fail, info")
    if f == "send" and outcome.type == "ok":
        check_fields("the value of a send", value, PLACE, PLACE_OPTIONAL)
        _check_least("the value of a send", value)
    elif f == "request" and outcome.type == "ok":
        check_fields("the value of a request", value, {**PLACE, "reply": TEXT}, PLACE_OPTIONAL)
    elif f == "transact" and outcome.type == "ok":
        check_fields("the value of a transact", value, HALF, PLACE_OPTIONAL)
    elif f == "send_batch" and (outcome.type == "ok" or "messages" in value):
        _check_batch(len(request["messages"]), value)
    elif f == "send_many" and (outcome.type == "ok" or "stretches" in value):
        _check_many(value, request["key"], request["count"])


def _check_many(value: dict[str, Any], key: str, count: int) -> None:
    """All of the messages that were to be sent must be there, in their order."""
    check_fields("the value of a send_many", value, MANY, PLACE_OPTIONAL)
    told = 0
    for row in value["stretches"]:
        _check_row("a stretch of send_many", row, SENT_STRETCH)
        _check_stretch(row, count=row[3], stride=row[4])
        if row[0] != nth_key(key, told):
            what = f"a stretch of send_many begins with {row[0]!r:.80}"
            raise LineError(f"{what}; expected {nth_key(key, told)!r}")
        told += row[3]
    if told != count:
        raise LineError(f"the stretches of send_many hold {told} messages; {count} were to be sent")


def _check_stretch(row: list[Any], *, count: int, stride: int) -> None:
    """Key and offsets come first in any stretch."""
    _check_count("the length of a stretch", count, row[0])
    if not 0 <= row[1] < OFFSET_MAX:
        raise LineError(f"the queue offset of a stretch is {row[1]}; allowed are 0 to 2^62")
    if abs(row[2]) + count * abs(stride) >= OFFSET_MAX:
        what = f"a stretch goes from the physical offset {row[2]} on in steps of {stride}"
        raise LineError(f"{what}; its offsets do not fit 62 bits")


def _check_originals(row: list[Any], first_copy: str) -> None:
    first, count = row
    if not 0 <= first < OFFSET_MAX:
        raise LineError(f"the queue offset of an original is {first}; allowed are 0 to 2^62")
    if not 1 <= count <= MANY_MAX:
        raise LineError(f"{count} originals follow each other; allowed are 1 to {MANY_MAX}")
    if not is_plain(first_copy):
        raise LineError(f"'key' of forward is {first_copy!r:.80}; allowed is p<process>-<n>")


def _check_count(what: str, count: int, first_key: str) -> None:
    if not 1 <= count <= MANY_MAX:
        raise LineError(f"{what} is {count}; allowed are 1 to {MANY_MAX}")
    if count > 1 and not is_plain(first_key):
        raise LineError(f"{what} is {count}, behind {first_key!r:.80}; nothing follows such a key")


def _check_batch(sent: int, value: dict[str, Any]) -> None:
    check_fields("the value of a send_batch", value, {"messages": LIST})
    if len(value["messages"]) != sent:
        raise LineError(f"{len(value['messages'])} places came back for {sent} messages")
    for place in value["messages"]:
        check_value("a place of send_batch", place, (dict,))
        check_fields("a place of send_batch", place, PLACE, PLACE_OPTIONAL)
        _check_least("a place of send_batch", place)
