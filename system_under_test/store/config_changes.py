"""Brings options that others hold up to date when some of them change while everything runs."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def take_over(kept: Any, fresh: Any) -> None:
    """Give `kept`, which others hold, the values of `fresh`: two dataclasses of the same kind, nested ones included."""
    for field in fields(kept):
        old, new = getattr(kept, field.name), getattr(fresh, field.name)
        if old == new:
            continue
        if is_dataclass(old) and is_dataclass(new):
            take_over(old, new)
        else:
            setattr(kept, field.name, new)
