"""The types in `checkers/op_kinds/values.py`, made of what each kind of op declares."""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.checkers.op_kinds.catalogue import OP_KINDS
from staticfire.checkers.op_kinds.fields import LIST, OBJECT, Field, Fields

HEAD = '''"""Types of the values of ops: requests, results and reports. `make docs` makes it of the declared kinds."""

from __future__ import annotations

from typing import NotRequired, TypedDict
'''
_WORDS = {type(None): "None"}


def op_values() -> str:
    """The module, as ruff formats it."""
    parts = [HEAD]
    for kind in OP_KINDS.values():
        stem = "".join(word.capitalize() for word in kind.name.split("_"))
        for end, fields in (
            ("Request", kind.request),
            ("Result", kind.result),
            ("Report", kind.report),
        ):
            if fields:
                parts += _classes(f"{stem}{end}", f"`{end.lower()}` of `{kind.name}`", fields)
    return "\n\n".join(parts)


def _classes(name: str, about: str, fields: Fields) -> Iterator[str]:
    """The class of these fields, after those of the objects that its lists hold."""
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
    """The annotation of a field; `objects` is the class of the objects that it holds."""
    if field.kind == LIST:
        if field.row is not None:
            return "list[list[object]]"
        return f"list[{objects if field.objects is not None else _item(field)}]"
    if field.kind == OBJECT:
        return f"dict[str, {_item(field)}]"
    return " | ".join(_WORDS.get(one, one.__name__) for one in field.kind) or "object"


def _item(field: Field) -> str:
    return "object" if field.item is None else type_in_words(field.item, "object")
