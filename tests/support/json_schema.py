"""Checks JSON values against the part of JSON Schema that docs/client-protocol.schema.json uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
SILENT = {"$schema", "$defs", "title", "description", "then"}  # `then` is read with `if`


class Validator:
    """`mistakes` of a value against one definition of a schema, each a sentence with its path."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._keywords: dict[str, Callable[[Any, dict[str, Any], str], Iterator[str]]] = {
            "$ref": lambda value, schema, at: self._at(value, self._find(schema["$ref"]), at),
            "type": self._type,
            "const": lambda value, schema, at: _unless(value == schema["const"], at, value),
            "enum": lambda value, schema, at: _unless(value in schema["enum"], at, value),
            "minimum": lambda value, schema, at: _unless(
                type(value) is not int or value >= schema["minimum"], at, value
            ),
            "maximum": lambda value, schema, at: _unless(
                type(value) is not int or value <= schema["maximum"], at, value
            ),
            "minItems": lambda value, schema, at: _unless(
                not isinstance(value, list) or len(value) >= schema["minItems"], at, value
            ),
            "maxItems": lambda value, schema, at: _unless(
                not isinstance(value, list) or len(value) <= schema["maxItems"], at, value
            ),
            "required": self._required,
            "properties": self._properties,
            "additionalProperties": self._others,
            "items": self._items,
            "prefixItems": self._prefix,
            "anyOf": self._any_of,
            "if": self._condition,
        }

    def mistakes(self, value: Any, definition: str | None = None) -> list[str]:
        schema = self._root if definition is None else self._find(f"#/$defs/{definition}")
        return list(self._at(value, schema, "line"))

    def _find(self, reference: str) -> dict[str, Any]:
        found: dict[str, Any] = self._root["$defs"][reference.removeprefix("#/$defs/")]
        return found

    def _at(self, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        for keyword in schema.keys() - SILENT:
            yield from self._keywords[keyword](value, schema, at)

    def _type(self, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        return _unless(any(TYPES[name](value) for name in names), at, value)

    def _required(self, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        for name in schema["required"] if isinstance(value, dict) else ():
            if name not in value:
                yield f"{at} lacks {name}"

    def _properties(self, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        for name, inner in schema["properties"].items() if isinstance(value, dict) else ():
            if name in value:
                yield from self._at(value[name], inner, f"{at}.{name}")

    def _others(self, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        for name in value if isinstance(value, dict) else ():
            if name not in schema.get("properties", {}):
                yield from self._at(value[name], schema["additionalProperties"], f"{at}.{name}")

    def _items(self, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        for number, item in enumerate(value if isinstance(value, list) else ()):
            yield from self._at(item, schema["items"], f"{at}[{number}]")

    def _prefix(self, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        items = value if isinstance(value, list) else ()
        for number, (item, inner) in enumerate(zip(items, schema["prefixItems"], strict=False)):
            yield from self._at(item, inner, f"{at}[{number}]")

    def _any_of(self, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        fits = any(not list(self._at(value, one, at)) for one in schema["anyOf"])
        return _unless(fits, at, value)

    def _condition(self, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        if not list(self._at(value, schema["if"], at)):
            yield from self._at(value, schema["then"], at)


def _unless(fits: bool, at: str, value: Any) -> Iterator[str]:
    if not fits:
        yield f"{at} is {value!r:.80}"
