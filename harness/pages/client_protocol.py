"""Tables of docs/client-protocol.md, from the declarations of the kinds of op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from staticfire.checkers.op_kinds.catalogue import OP_KINDS
from staticfire.checkers.op_kinds.fields import KIND_NAMES, LIST, OBJECT, Field, Fields
from staticfire.checkers.op_kinds.kind import CLIENTS, OpKind, Role
from staticfire.harness.pages.generated import table

LONG = 1 << 40  # a larger bound is written as a power of two
FieldsOf = Callable[[OpKind], Fields | None]


def asked() -> list[OpKind]:
    """Return the kinds of requests, those of producers first."""
    return _by_role(
        [kind for kind in OP_KINDS.values() if kind.asked_of], lambda kind: kind.asked_of
    )


def reported() -> list[OpKind]:
    """Return the kinds of reports, those of producers first."""
    kinds = [kind for kind in OP_KINDS.values() if not set(kind.reported_by).isdisjoint(CLIENTS)]
    return _by_role(kinds, lambda kind: kind.reported_by)


def _by_role(kinds: list[OpKind], roles: Callable[[OpKind], tuple[Role, ...]]) -> list[OpKind]:
    return sorted(kinds, key=lambda kind: CLIENTS.index(roles(kind)[0]))


def requests_table() -> str:
    """Return the table of requests."""
    head = ("`f`", "of", "meaning", "in the history")
    rows: list[tuple[str, ...]] = [
        (f"`{kind.name}`", ", ".join(kind.asked_of), kind.about, _recorded(kind))
        for kind in asked()
    ]
    return table(head, rows)


def _recorded(kind: OpKind) -> str:
    return "" if kind.form == "unrecorded" else f"`{kind.recorded_name}`"


def reports_table() -> str:
    """Return the table of reports."""
    head = ("`emit`", "of", "meaning")
    return table(
        head,
        [
            (f"`{kind.name}`", ", ".join(kind.reported_by), kind.report_about or kind.about)
            for kind in reported()
        ],
    )


def request_fields_table() -> str:
    return _fields_table("`f`", asked(), lambda kind: kind.request)


def result_fields_table() -> str:
    return _fields_table("`f`", asked(), lambda kind: kind.result)


def report_fields_table() -> str:
    return _fields_table("`emit`", reported(), lambda kind: kind.report)


def _fields_table(of: str, kinds: Iterable[OpKind], fields_of: FieldsOf) -> str:
    """Return a row for each field; kinds with the same declaration share the row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for kind in kinds:
        for name, field in (fields_of(kind) or {}).items():
            said = (_name(name, field), type_of(field), field.about)
            rows.setdefault(said, []).append(f"`{kind.name}`")
    head = ("field", of, "type", "meaning")
    return table(
        head, [(name, ", ".join(of), type, about) for (name, type, about), of in rows.items()]
    )


def items_table() -> str:
    """Return the table of items in rows and objects of lists."""
    rows: dict[tuple[str, str, str], dict[str, None]] = {}
    fields = [
        (name, field)
        for kind in (*asked(), *reported())
        for fields in (kind.request, kind.result, kind.report)
        for name, field in (fields or {}).items()
    ]
    for name, field in fields:
        for of, inner, item in _inner(name, field):
            said = (_name(inner, item), type_of(item), item.about)
            rows.setdefault(said, {})[f"`{of}`"] = None
    head = ("item", "of lists", "type", "meaning")
    return table(
        head, [(name, ", ".join(of), type, about) for (name, type, about), of in rows.items()]
    )


def _inner(name: str, field: Field) -> Iterator[tuple[str, str, Field]]:
    """Return the list and the fields of its items."""
    for inner, item in (field.row or field.objects or {}).items():
        yield name, inner, item
    for inner, item in (field.contents or {}).items():
        yield "contents", inner, item


def _name(name: str, field: Field) -> str:
    return f"`{name}`, optional" if field.is_optional else f"`{name}`"


def type_of(field: Field) -> str:
    """Return the type of a field in words: "a whole number from 1 to 18", "a list of `[broker, queue]`"."""
    if field.allowed:
        return f"{', '.join(f'`{word}`' for word in field.allowed[:-1])} or `{field.allowed[-1]}`"
    if field.kind == LIST and field.row is not None:
        more = ", contents" if field.contents is not None else ""
        return f"a list of `[{', '.join(field.row)}{more}]`"
    if field.kind == LIST and field.objects is not None:
        names = (name for name, one in field.objects.items() if not one.is_optional)
        return f"a list of objects with `{'`, `'.join(names)}`"
    if field.kind in (LIST, OBJECT) and field.item is not None:
        what = "a list, each" if field.kind == LIST else "an object, each value"
        return f"{what} {type_of(field.item)}"
    words = " or ".join(
        KIND_NAMES[one] for one in field.kind if one is not int or float not in field.kind
    )
    if field.least is None:
        return words
    return f"{words}, {_bounds(field.least, field.most)}"


def _bounds(low: int, high: int | None) -> str:
    if high is None:
        return f"{low} and more"
    return f"{low} to {high:,}" if high < LONG else f"from {low}, below 2^{high.bit_length()}"
