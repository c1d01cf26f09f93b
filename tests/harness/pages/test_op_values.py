"""The types in checkers/op_kinds/values.py match the declared kinds of op."""

from __future__ import annotations

from typing import Any, NotRequired, get_origin, get_type_hints, is_typeddict

import pytest

from staticfire.checkers.op_kinds import values
from staticfire.checkers.op_kinds.catalogue import OP_KINDS
from staticfire.checkers.op_kinds.fields import FLAG_OR_NULL, LIST, NUMBER, TEXT, Field
from staticfire.harness.pages.op_values import recorded, type_in_words

TYPES = {name: one for name, one in vars(values).items() if is_typeddict(one)}


@pytest.mark.parametrize("name", OP_KINDS)
def test_what_a_history_holds_of_a_kind_has_a_type_with_its_fields(name: str) -> None:
    kind = OP_KINDS[name]
    stem = "".join(word.capitalize() for word in name.split("_"))
    is_report = kind.form != "send"
    for end, fields in (
        ("Request", None),
        ("Result", kind.result if name == "send" else None),
        ("Report", kind.report if is_report else None),
        ("Value", None if is_report or kind.recorded_as else recorded(kind)),
    ):
        if not fields:
            assert f"{stem}{end}" not in TYPES
            continue
        hints: dict[str, Any] = get_type_hints(TYPES[f"{stem}{end}"], include_extras=True)
        assert list(hints) == list(fields)
        for field_name, hint in hints.items():
            assert (get_origin(hint) is NotRequired) == fields[field_name].is_optional


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (Field(TEXT, "a text"), "str"),
        (Field(NUMBER, "a number"), "int | float"),
        (Field(FLAG_OR_NULL, "a flag or null"), "bool | None"),
        (Field((), "anything"), "object"),
        (Field(LIST, "rows", row={"key": Field(TEXT, "a key")}), "list[list[Any]]"),
        (Field(LIST, "texts", item=Field(TEXT, "a text")), "list[str]"),
        (Field(LIST, "objects", objects={"key": Field(TEXT, "a key")}), "list[Inner]"),
        (Field((dict,), "by name", item=Field(TEXT, "a text")), "dict[str, str]"),
    ],
)
def test_the_type_of_a_field(field: Field, words: str) -> None:
    assert type_in_words(field, "Inner") == words
