"""Checks the values in a client's lines.

Clients of any language write these lines, so each error is reported at once, with the names of the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from staticfire.checkers.model.message_contents import check_contents
from staticfire.checkers.model.message_ranges import is_plain, nth_key
from staticfire.checkers.op_kinds.catalogue import OP_KINDS, REPORTED
from staticfire.checkers.op_kinds.fields import LIST, Fields
from staticfire.checkers.op_kinds.message_fields import MANY_MAX, OFFSET_MAX
from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.harness.clients.lines import LineError, check_bounds, check_declared, check_items
from staticfire.harness.clients.port import Outcome, Request

if TYPE_CHECKING:
    from staticfire.checkers.model.history import OpType

ONE_OF = {"messages": "a message", "ranges": "a range"}  # by the field that lists them


def check_emitted(type: OpType, f: str, value: Mapping[str, Any]) -> None:
    """Raises LineError for an op that no client reports by itself, or whose value is incomplete."""
    if f not in REPORTED:
        raise LineError(f"'emit' is {f!r:.80}; allowed are {', '.join(REPORTED)}")
    what, declared = f"the value of {f}", REPORTED[f]
    check_declared(what, value, declared)
    if f == "open" and type not in ("ok", "fail"):
        raise LineError(f"'type' of open is {type!r}; allowed are ok, fail")
    if f == SEND_MANY:
        _check_count("'count' of send_many", value["count"], value["key"])
        if type == "ok" or "ranges" in value:
            _check_many(value, value["key"], value["count"])
    check_bounds(what, value, declared)
    for name, field in declared.items():
        if field.row is not None:
            check_items(f"a row of {name!r} in {what}", value[name], field)
            for row in value[name]:
                _check_meaning(f, value, row)
                check_bounds(
                    f"{ONE_OF.get(name, 'a row')} of {f}",
                    dict(zip(field.row, row, strict=False)),
                    field.row,
                )


def _check_meaning(f: str, value: Mapping[str, Any], row: list[Any]) -> None:
    """Check what types cannot express. Raises LineError."""
    if f == "consume" and len(row) > len(REPORTED[f]["messages"].row or ()):
        try:
            check_contents(row[-1])
        except ValueError as error:
            raise LineError(f"a message of consume: {error}") from None
    elif f == "consume_many":
        _check_range(row, count=row[5], stride=row[6])
    elif f == "forward":
        _check_originals(row, value["key"])


def check_result(request: Request, outcome: Outcome) -> None:
    """Raises LineError if the answer lacks what an answer to this request must have."""
    f, value = request["f"], outcome.value
    if outcome.type == "invoke":
        raise LineError(f"the answer to {f} has the type 'invoke'; allowed are ok, fail, info")
    kind = OP_KINDS.get(f)
    if kind is None or kind.result is None:
        return
    lists = [name for name, field in kind.result.items() if field.kind == LIST]
    if outcome.type == "ok" or any(name in value for name in lists):
        if f == SEND_MANY:
            _check_many(value, request["key"], request["count"])
        elif f == "send_batch":
            _check_batch(len(request["messages"]), value, kind.result)
        else:
            check_declared(f"the value of a {f}", value, kind.result)
            check_bounds(f"the value of a {f}", value, kind.result)


def _check_many(value: Mapping[str, Any], key: str, count: int) -> None:
    """Check that the answer has all requested messages, in order."""
    declared = OP_KINDS[SEND_MANY].result or {}
    check_declared("the value of a send_many", value, declared)
    check_bounds("the value of a send_many", value, declared)
    check_items("a range of send_many", value["ranges"], declared["ranges"])
    sent = 0
    for row in value["ranges"]:
        _check_range(row, count=row[3], stride=row[4])
        if row[0] != nth_key(key, sent):
            what = f"a range of send_many begins with {row[0]!r:.80}"
            raise LineError(f"{what}; expected {nth_key(key, sent)!r}")
        sent += row[3]
    if sent != count:
        raise LineError(f"the ranges of send_many hold {sent} messages; {count} were to be sent")


def _check_range(row: list[Any], *, count: int, stride: int) -> None:
    """Check a message range, which begins with key and offsets."""
    _check_count("the length of a range", count, row[0])
    if not 0 <= row[1] < OFFSET_MAX:
        raise LineError(f"the queue offset of a range is {row[1]}; allowed are 0 to 2^62")
    if abs(row[2]) + count * abs(stride) >= OFFSET_MAX:
        what = f"a range goes from the physical offset {row[2]} on in steps of {stride}"
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


def _check_batch(sent: int, value: Mapping[str, Any], declared: Fields) -> None:
    check_declared("the value of a send_batch", value, declared)
    if len(value["messages"]) != sent:
        raise LineError(f"{len(value['messages'])} places came back for {sent} messages")
    declared_items = declared["messages"]
    check_items("a place of send_batch", value["messages"], declared_items)
    for position in value["messages"]:
        check_bounds("a place of send_batch", position, declared_items.objects or {})
