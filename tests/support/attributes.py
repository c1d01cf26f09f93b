"""The attributes of a class with slots, compiled or not."""

from __future__ import annotations

from inspect import isdatadescriptor

__all__ = ["attributes"]


def attributes(of: type) -> list[str]:
    """Names of what instances hold and of properties, sorted."""
    return sorted(
        name
        for name, value in vars(of).items()
        if isdatadescriptor(value) and not name.startswith("__")
    )
