"""Generates the types in `checkers/op_kinds/values.py` from the declarations of the kinds of op."""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.checkers.op_kinds.catalogue import OP_KINDS
from staticfire.checkers.op_kinds.fields import LIST, OBJECT, Field, Fields, optional
from staticfire.checkers.op_kinds.kind import OpKind

HEAD = '''"""Types of the values of ops in a history: reports, sends and the answer to a send. `make docs` makes it.

The kinds of op declare them. The rows of a list are lists, each with the items that its kind names.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict
'''
_WORDS = {type(None): "None"}


def op_values() -> str:
    """Return the module, formatted like by ruff."""
    parts = [HEAD]
    for kind in OP_KINDS.values():
        stem = "".join(word.capitalize() for word in kind.name.split("_"))
        if kind.name == "send":  # which other kinds of send embed
            parts += _classes(f"{stem}Result", "`result` of `send`", kind.result or {})
        if kind.form != "send" and kind.report:
            parts += _classes(f"{stem}Report", f"`report` of `{kind.name}`", kind.report)
        elif kind.form == "send" and not kind.recorded_as:
            parts += _classes(
                f"{stem}Value", f"value of `{kind.name}` in a history", recorded(kind)
            )
    return "\n\n".join(parts)


def recorded(kind: OpKind) -> Fields:
    """Return the fields of a send in a history: the request, the answer once it has ended, the harness's additions."""
    parts: list[Fields] = []
    for one in OP_KINDS.values():
        if one.recorded_name == kind.name:
            parts += [_of_one_send(fields) for fields in (one.request, one.result) if fields]
    fields = {
        name: field for part in reversed([*parts, kind.noted or {}]) for name, field in part.items()
    }
    always = {"key": fields["key"]}
    return {**always, **optional({name: fields[name] for name in sorted(fields.keys() - always)})}


def _of_one_send(fields: Fields) -> Fields:
    """Return the fields of each message of a batch."""
    messages = fields.get("messages")
    if messages is None or messages.objects is None:
        return fields
    asked = {name: field for name, field in fields.items() if name != "messages"}
    return {**asked, **messages.objects}


def _classes(name: str, about: str, fields: Fields) -> Iterator[str]:
    """Yield the classes of the objects in lists, then the class of these fields."""
    for field_name, field in fields.items():
        if field.objects is not None:
            inner = f"{name}{field_name.capitalize()}"
            yield from _classes(inner, f"one of `{field_name}` in the {about}", field.objects)
    if all(field_name.isidentifier() and field_name != "async" for field_name in fields):
        lines = [f"    {of}: {_optional(name, of, field)}" for of, field in fields.items()]
        yield "\n".join([f"class {name}(TypedDict):", f'    """The {about}."""', "", *lines]) + "\n"
    else:  # a name that is a keyword
        lines = [f'        "{of}": {_optional(name, of, field)},' for of, field in fields.items()]
        yield "\n".join(
            [f"{name} = TypedDict(", f'    "{name}",', "    {", *lines, "    },", ")\n"]
        )


def _optional(name: str, field_name: str, field: Field) -> str:
    words = type_in_words(field, f"{name}{field_name.capitalize()}")
    return f"NotRequired[{words}]" if field.is_optional else words


def type_in_words(field: Field, objects: str) -> str:
    """Return the annotation of a field; `objects` is the class of the objects that it holds."""
    if field.kind == LIST:
        if field.row is not None:
            return "list[list[Any]]"
        return f"list[{objects if field.objects is not None else _item(field)}]"
    if field.kind == OBJECT:
        return f"dict[str, {_item(field)}]"
    return " | ".join(_WORDS.get(one, one.__name__) for one in field.kind) or "object"


def _item(field: Field) -> str:
    """Return the annotation of a list's items; `Any` for items of mixed types."""
    if field.item is None or not field.item.kind:
        return "Any"
    return type_in_words(field.item, "object")
