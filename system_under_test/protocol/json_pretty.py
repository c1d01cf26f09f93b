"""Writes JSON in the format of RocketMQ's metadata files (fastjson: PrettyFormat, MapSerializer and ListSerializer).

Each named member is on a line of its own, after tabs; integer keys have no quotes and stay on one line.
"""

from __future__ import annotations

from typing import Any

import orjson


def dumps_pretty(value: object) -> bytes:
    """The text in the order of the dicts. A map of decimal names to integers (offsets by queue) has integer keys."""
    return _written(value, 0).encode()


def _written(value: object, depth: int) -> str:
    if isinstance(value, dict) and value:
        return "{" + _members(value, depth + 1) + "\n" + "\t" * depth + "}"
    if isinstance(value, list | tuple) and value:
        line = "\n" + "\t" * (depth + 1)
        items = ",".join(line + _written(item, depth + 1) for item in value)
        return "[" + items + "\n" + "\t" * depth + "]"
    return orjson.dumps(value).decode()


def _members(members: dict[object, object], depth: int) -> str:
    if _has_integer_keys(members):
        return ",".join(f"{key}:{value}" for key, value in members.items())
    line = "\n" + "\t" * depth
    return ",".join(
        f"{line}{orjson.dumps(str(key)).decode()}:{_written(value, depth)}"
        for key, value in members.items()
    )


def _has_integer_keys(members: dict[Any, Any]) -> bool:
    return all(
        type(value) is int and (type(key) is int or key.isdecimal())
        for key, value in members.items()
    )
