"""The declaration of a kind of op, and the checks of a declaration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NoReturn, get_args

from staticfire.checkers.op_kinds.fields import LIST, OBJECT, Field, Fields

Role = Literal["producer", "consumer", "harness"]
# The form in a history: rows of columns (send, delivery), rows and an event of the timeline (commit), an event only
# (event), or none (unrecorded).
Form = Literal["send", "delivery", "commit", "event", "unrecorded"]
CLIENTS: tuple[Role, ...] = ("producer", "consumer")
_NAME = re.compile(r"[a-z]+(_[a-z]+)*")


class OpKindError(ValueError):
    """The declaration of a kind of op is wrong; the text is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpKind:
    """One kind of op.

    The harness requests it from the roles `asked_of`: `request` has the fields of the request, `result` those of an
    answer that is `ok`. The roles `reported_by` report it without a request: `report` has the fields, to which an `ok`
    report adds those of `result`, if there are any. A report of the harness itself exists only in the history. `noted`
    has the fields that the harness adds in a history.
    """

    name: str
    about: str
    form: Form
    asked_of: tuple[Role, ...] = ()
    request: Fields | None = None
    result: Fields | None = None
    reported_by: tuple[Role, ...] = ()
    report: Fields | None = None
    noted: Fields | None = None
    report_about: str = ""  # describes a report, if `about` describes the request
    rows: str = ""  # the field that names the messages of an op about many
    recorded_as: str = ""  # its name in a history, if that differs

    @property
    def recorded_name(self) -> str:
        return self.recorded_as or self.name


def check_kind(kind: OpKind) -> None:
    """Raise OpKindError for the first part of a declaration that is wrong or missing."""
    if not _NAME.fullmatch(kind.name):
        _wrong(kind, "name", kind.name, "small letters with underscores, such as send_many")
    if not kind.about:
        _wrong(kind, "about", kind.about, "a sentence")
    if kind.form not in get_args(Form):
        _wrong(kind, "form", kind.form, f"one of {', '.join(get_args(Form))}")
    for attribute, roles in (("asked_of", CLIENTS), ("reported_by", get_args(Role))):
        for role in getattr(kind, attribute):
            if role not in roles:
                _wrong(kind, attribute, role, f"some of {', '.join(roles)}")
    if kind.request is None and kind.report is None:
        _wrong(kind, "request", None, "a request, a report or both")
    if (kind.request is None) != (kind.result is None):
        _wrong(kind, "result", kind.result, "fields with a request, None without one")
    for attribute, fields in (("asked_of", kind.request), ("reported_by", kind.report)):
        if (fields is None) != (not getattr(kind, attribute)):
            what = "roles, because it has fields" if fields is not None else "none without fields"
            _wrong(kind, attribute, getattr(kind, attribute), what)
    if kind.form == "delivery" and not kind.rows:
        _wrong(kind, "rows", kind.rows, "the field that holds the messages of a delivery")
    for fields in (kind.request, kind.result, kind.report, kind.noted):
        for name, field in (fields or {}).items():
            _check_field(kind, name, field)
    if kind.rows and all(kind.rows not in (fields or {}) for fields in (kind.result, kind.report)):
        _wrong(kind, "rows", kind.rows, "the name of a field of its result or report")


def check_kinds(kinds: Iterable[OpKind]) -> None:
    """Raise OpKindError for a wrong declaration, a duplicate name, or a recorded name that no kind of this form has."""
    by_name: dict[str, OpKind] = {}
    for kind in kinds:
        check_kind(kind)
        if kind.name in by_name:
            raise OpKindError(f"two kinds of op have the name {kind.name!r}; allowed: one of each")
        by_name[kind.name] = kind
    for kind in by_name.values():
        target = by_name.get(kind.recorded_name)
        if target is None or target.form != kind.form or target.recorded_as:
            _wrong(kind, "recorded_as", kind.recorded_as, f"another kind of the form {kind.form}")


def _check_field(kind: OpKind, name: str, field: Field) -> None:
    if not field.about:
        _wrong(kind, f"field {name}", field.about, "a sentence that says what it is")
    low, high = field.least, field.most
    if low is not None and high is not None and low > high:
        _wrong(kind, f"field {name}", (low, high), "bounds in ascending order")
    inside = (field.row, field.objects, field.item)
    if sum(part is not None for part in inside) != (field.kind in (LIST, OBJECT)):
        _wrong(kind, f"field {name}", field.kind, "one of row, objects, item for a list or object")
    for fields in (field.row, field.objects, field.contents):
        for inner, one in (fields or {}).items():
            _check_field(kind, f"{name}.{inner}", one)
    if field.item is not None:
        _check_field(kind, f"{name}[]", field.item)


def _wrong(kind: OpKind, attribute: str, value: object, allowed: str) -> NoReturn:
    raise OpKindError(f"{attribute} of op kind {kind.name} is {value!r:.80}; allowed: {allowed}")
