"""Replaces single policies of a table: hardened except for the named policies.

One faithful behaviour often hides another: a broker that a torn `topics.json` has stopped can lose no message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

Table = TypeVar("Table")


def policy_names(table: object) -> tuple[str, ...]:
    """The names of all policies of a table, such as `visible_end`; dotted for nested tables, such as `store.sync`."""
    return tuple(_names(table, ""))


def _names(table: Any, prefix: str) -> Iterator[str]:
    for field in fields(table):
        value = getattr(table, field.name)
        if is_dataclass(value) and not isinstance(value, type):
            yield from _names(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def with_chosen(table: Table, other: Table, names: Collection[str]) -> Table:
    """`table` with the policies `names` taken from `other`.

    Raises ValueError for a name that the table does not have.
    """
    known = policy_names(table)
    for name in names:
        if name not in known:
            raise ValueError(f"there is no policy {name!r}; there are: {', '.join(known)}")
    for name in names:
        table = _with_line(table, other, name)
    return table


def _with_line(table: Any, other: Any, name: str) -> Any:
    first, _, rest = name.partition(".")
    value = getattr(other, first)
    if rest:
        value = _with_line(getattr(table, first), value, rest)
    return replace(table, **{first: value})
