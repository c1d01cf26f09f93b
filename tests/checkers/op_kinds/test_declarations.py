"""Declarations of op kinds: a wrong one is refused in one sentence, and every existing kind can be recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.model.building.column_builder import ColumnBuilder
from staticfire.checkers.model.history import HistoryError, Op
from staticfire.checkers.op_kinds.catalogue import OP_KINDS, RECORDED, requests_of
from staticfire.checkers.op_kinds.fields import LIST, TEXT, WHOLE, Field
from staticfire.checkers.op_kinds.kind import OpKind, OpKindError, check_kinds

GOOD = OpKind(
    name="peek",
    about="look at a message",
    form="event",
    asked_of=("consumer",),
    request={"key": Field(TEXT, "the key")},
    result={"found": Field(WHOLE, "how many there are", least=0)},
)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"name": "Peek"}, "name of op kind Peek is 'Peek'; allowed: small letters"),
        ({"about": ""}, "about of op kind peek is ''; allowed: a sentence"),
        ({"form": "row"}, "form of op kind peek is 'row'; allowed: one of send, delivery, commit"),
        ({"result": None}, "result of op kind peek is None; allowed: fields with a request"),
        ({"request": None, "asked_of": (), "result": None}, "allowed: a request, a report or both"),
        ({"asked_of": ()}, "asked_of of op kind peek is (); allowed: roles, because it has fields"),
        ({"asked_of": ("broker",)}, "is 'broker'; allowed: some of producer, consumer"),
        ({"asked_of": ("harness",)}, "is 'harness'; allowed: some of producer, consumer"),
        ({"reported_by": ("consumer",)}, "allowed: none without fields"),
        ({"form": "delivery"}, "allowed: the field that holds the messages of a delivery"),
        ({"rows": "messages"}, "is 'messages'; allowed: the name of a field of its result or"),
        ({"recorded_as": "look"}, "recorded_as of op kind peek is 'look'; allowed: another kind"),
        ({"request": {"key": Field(TEXT, "")}}, "field key of op kind peek is ''; allowed: a sent"),
        (
            {"request": {"n": Field(WHOLE, "a number", least=2, most=1)}},
            "field n of op kind peek is (2, 1); allowed: bounds in ascending order",
        ),
        (
            {"request": {"keys": Field(LIST, "the keys")}},
            "allowed: one of row, objects, item for a list or object",
        ),
        (
            {"request": {"keys": Field(LIST, "the keys", row={"key": Field(TEXT, "")})}},
            "field keys.key of op kind peek is ''; allowed: a sentence that says what it is",
        ),
    ],
)
def test_a_wrong_declaration_is_one_sentence(changes: dict[str, Any], complaint: str) -> None:
    check_kinds([GOOD])
    with pytest.raises(OpKindError) as caught:
        check_kinds([replace(GOOD, **changes)])
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_of_one_name() -> None:
    with pytest.raises(OpKindError, match="two kinds of op have the name 'peek'; allowed: one of"):
        check_kinds([GOOD, GOOD])


def test_recorded_under_the_name_of_another_form() -> None:
    other = replace(GOOD, name="look", form="send")
    with pytest.raises(OpKindError, match="recorded_as of op kind peek is 'look'; allowed"):
        check_kinds([other, replace(GOOD, recorded_as="look")])


@pytest.mark.parametrize("f", sorted(RECORDED))
def test_a_recorded_kind_lacks_a_value_that_it_needs(f: str) -> None:
    """The builder of columns knows every kind: without its fields a value is refused, and the op is named."""
    kind = OP_KINDS[f]
    needed = [
        name for name, field in (kind.report or kind.request or {}).items() if not field.is_optional
    ]
    op: Op = Op(index=0, time_ns=0, process=1, type="ok", f=f, error=None, node="n")
    if not needed:
        ColumnBuilder().add(op)
        return
    with pytest.raises(HistoryError, match=rf"op 0 \(1 ok {f}\): the value lacks '"):
        ColumnBuilder().add(op)


def test_clients_are_asked_for_what_their_role_declares() -> None:
    assert list(requests_of("producer")) == [
        "open",
        "send",
        "send_batch",
        "send_many",
        "transact",
        "request",
        "clock",
    ]
    assert "clock" in requests_of("consumer")
    assert requests_of("harness") == {}
