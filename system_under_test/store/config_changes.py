"""Updates an options object in place, so that all its holders see options that change at run time."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def take_over(kept: Any, fresh: Any) -> None:
    """Copy the values of `fresh` into `kept`, which others hold: two dataclasses of one type, including nested ones."""
    for field in fields(kept):
        old, new = getattr(kept, field.name), getattr(fresh, field.name)
        if old == new:
            continue
        if is_dataclass(old) and is_dataclass(new):
            take_over(old, new)
        else:
            setattr(kept, field.name, new)
