"""Types of the values of ops. The line protocol checks them; its pages and its JSON Schema are generated from them.

Client processes import this module, so it needs only the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

Kind = tuple[type, ...]  # exact: true is no whole number
TEXT: Final[Kind] = (str,)
WHOLE: Final[Kind] = (int,)
NUMBER: Final[Kind] = (int, float)
FLAG: Final[Kind] = (bool,)
LIST: Final[Kind] = (list,)
OBJECT: Final[Kind] = (dict,)
TEXT_OR_NULL: Final[Kind] = (str, type(None))
WHOLE_OR_NULL: Final[Kind] = (int, type(None))
FLAG_OR_NULL: Final[Kind] = (bool, type(None))
ANYTHING: Final[Kind] = ()
# the largest whole number; -WHOLE_MAX is the smallest, because columns have 64 bits
WHOLE_MAX: Final = 2**63 - 1
KIND_NAMES: Final[Mapping[type, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class Field:
    """The type of a named value.

    A list describes its items in one of three ways: `row` (each item is a list with one value for each name), `objects`
    (each item is an object with these fields) or `item` (each item is of this type). For an object, `item` describes
    each of its values.
    """

    kind: Kind
    about: str
    is_optional: bool = False
    least: int | None = None
    most: int | None = None
    allowed: tuple[str, ...] = ()  # the allowed texts; empty: any text
    row: Mapping[str, Field] | None = None
    contents: Mapping[str, Field] | None = None  # a row may end with a list of these values
    objects: Mapping[str, Field] | None = None
    item: Field | None = None

    @property
    def is_bounded(self) -> bool:
        return self.least is not None or self.most is not None


Fields = Mapping[str, Field]


def optional(fields: Fields) -> Fields:
    """Return the same fields, all of them optional."""
    return {name: replace(field, is_optional=True) for name, field in fields.items()}
