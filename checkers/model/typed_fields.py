"""Checks data classes whose values come from a file: each value must have the type of its annotation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

SHOWN_MAX = 100  # characters of a value


def check_types(value: Any, wanted: Any, name: str) -> None:
    """Raise TypeError unless the value, and every value in it, has the type of its annotation.

    Tuples are homogeneous: `tuple[X, ...]`.
    """
    origin, arguments = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return
    if isinstance(wanted, type) and is_dataclass(wanted):
        _require(isinstance(value, wanted), name, value)
        hints = _hints_of(wanted)
        for part in fields(wanted):
            check_types(getattr(value, part.name), hints[part.name], part.name)
    elif origin is tuple:
        _require(isinstance(value, tuple), name, value)
        for item in value:
            check_types(item, arguments[0], name)
    elif origin in (Mapping, dict):
        _require(isinstance(value, Mapping), name, value)
        for key, item in value.items():
            check_types(key, arguments[0], name)
            check_types(item, arguments[1], name)
    elif origin in (Union, UnionType):
        if not any(_is_scalar(value, one) for one in arguments):
            one_of = [one for one in arguments if get_origin(one) in (tuple, Mapping)]
            _require(len(one_of) == 1, name, value)
            check_types(value, one_of[0], name)
    else:
        _require(_is_scalar(value, wanted), name, value)


@cache
def _hints_of(kind: object) -> dict[str, object]:
    return get_type_hints(kind)


def _require(condition: bool, name: str, value: object) -> None:
    if not condition:
        shown = repr(value)
        raise TypeError(f"{name} is or holds {shown[:SHOWN_MAX]}{'...' * (len(shown) > SHOWN_MAX)}")


def _is_scalar(value: object, wanted: object) -> bool:
    """Whether the value has exactly that type: True is not a number, an integer passes as float and has 64 bits."""
    if wanted in (None, NoneType):
        return value is None
    if get_origin(wanted) is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(wanted))
    if type(value) is int and wanted in (int, float):
        return abs(value) < 2**63
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return isinstance(value, wanted)
    return type(value) is wanted
