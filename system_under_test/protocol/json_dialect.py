"""The JSON of bodies as Java peers write it: fastjson's dialect in, standard JSON out.

Three things are not JSON: unquoted integer keys `{0:"a"}`, objects as keys `{{"queueId":1}:5}`, and references to
values met before `{"$ref":"$.path[0]"}`. An integer key becomes its text, an object key the text of its JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

DEPTH_MAX: Final = 100
# Limits of a request: the largest takes 60 ms to read. A heartbeat of 100 groups of 3 topics has 3,000 elements.
REQUEST_ELEMENTS_MAX: Final = 20_000
REQUEST_SIZE_MAX: Final = 4 << 20  # bytes
# Limit of what all references together expand to: a small body must not explode when read.
EXPANSION_MAX: Final = 1 << 20  # elements
# a text that a reference expands to counts one element for so many characters
CHARACTERS_AN_ELEMENT: Final = 16

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_NUMBER = re.compile(r"-?\d{1,400}(?:\.\d{1,400})?(?:[eE][-+]?\d{1,9})?")
_INTEGER_KEY = re.compile(r"-?\d{1,400}")
_WORD = re.compile(r"true|false|null")
_REFERENCE_KEY = "$ref"
_REFERENCE_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


class BodyError(ValueError):
    """A body is not JSON, or does not have the structure that its request needs."""


def dumps(value: object) -> bytes:
    """Standard JSON; integer keys are quoted, which every peer accepts."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def loads(text: bytes | str) -> Any:
    """Read standard JSON or the dialect, of any size. Raises BodyError if it is neither."""
    return _read(text, EXPANSION_MAX)


def loads_request(text: bytes | str) -> Any:
    """Like `loads`, for the body of an untrusted peer: bounds the work.

    Raises BodyError: it is not JSON, or has more than REQUEST_SIZE_MAX bytes or REQUEST_ELEMENTS_MAX elements.
    """
    elements = _check_size(text, REQUEST_SIZE_MAX, REQUEST_ELEMENTS_MAX)
    return _read(text, REQUEST_ELEMENTS_MAX - elements)


def loads_large_request(text: bytes | str, *, size_max: int, elements_max: int) -> object:
    """Like `loads_request`, with other limits; the dialect keeps those of `loads_request`. Raises BodyError."""
    elements = _check_size(text, size_max, elements_max)
    if elements <= REQUEST_ELEMENTS_MAX:
        return _read(text, REQUEST_ELEMENTS_MAX - elements)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BodyError(f"body of {elements} elements is not standard JSON: {error}") from None


def _check_size(text: bytes | str, size_max: int, elements_max: int) -> int:
    """An upper bound of the number of elements. Raises BodyError if the text is too large to be parsed."""
    if len(text) > size_max:
        raise BodyError(f"body has {len(text)} bytes; allowed: up to {size_max}")
    elements = count_elements(text)
    if elements > elements_max:
        raise BodyError(f"body has {elements} elements; allowed: up to {elements_max}")
    return elements


def count_elements(text: bytes | str) -> int:
    """An upper bound of members and items of the document: commas and brackets in strings count, too."""
    if isinstance(text, str):
        return text.count(",") + text.count("[") + text.count("{")
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _read(text: bytes | str, expansion_max: int) -> Any:
    """The document; all its references together may expand to at most `expansion_max` elements."""
    marker: Any = _REFERENCE_KEY if isinstance(text, str) else _REFERENCE_KEY.encode()
    if marker not in text:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return _Parser(_decoded(text)).document()
    document = _Parser(_decoded(text)).document()
    return _References(document, expansion_max).resolved(document)


def _decoded(text: bytes | str) -> str:
    try:
        return text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError as error:
        raise BodyError(f"body is not UTF-8: {error}") from None


class _Parser:
    """Recursive descent over one text; `_position` is where the next token begins."""

    __slots__ = ("_depth", "_in_key", "_position", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0
        self._in_key = False

    def document(self) -> Any:
        value = self._value()
        if self._peek():
            raise self._unexpected("the end")
        return value

    def _value(self) -> object:
        match self._peek():
            case "{":
                return self._nested(self._object)
            case "[":
                return self._nested(self._array)
            case '"':
                return self._token(_STRING, "text")
            case "t" | "f" | "n":
                return self._token(_WORD, "true, false or null")
            case _:
                return self._token(_NUMBER, "a value")

    def _nested(self, read: Callable[[], object]) -> object:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BodyError(f"body is nested deeper than {DEPTH_MAX}")
        self._position += 1
        value = read()
        self._depth -= 1
        return value

    def _object(self) -> dict[str, object]:
        members: dict[str, object] = {}
        if self._skip("}"):
            return members
        while True:
            name = self._name()
            self._expect(":")
            members[name] = self._value()
            if self._skip("}"):
                return members
            self._expect(",")

    def _array(self) -> list[object]:
        items: list[Any] = []
        if self._skip("]"):
            return items
        while True:
            items.append(self._value())
            if self._skip("]"):
                return items
            self._expect(",")

    def _name(self) -> str:
        match self._peek():
            case '"':
                return str(self._token(_STRING, "text"))
            case "{":
                return self._object_key()
            case _:
                return str(self._token(_INTEGER_KEY, "a key"))

    def _object_key(self) -> str:
        if self._in_key:  # each level would double the text: it escapes every quote again
            raise BodyError(f"an object is a key of a key, at {self._position}")
        self._in_key = True
        key = orjson.dumps(self._value(), option=orjson.OPT_SORT_KEYS).decode()
        self._in_key = False
        return key

    def _token(self, pattern: re.Pattern[str], wanted: str) -> object:
        found = pattern.match(self._text, self._position)
        if found is None:
            raise self._unexpected(wanted)
        try:
            value = orjson.loads(found.group())
        except orjson.JSONDecodeError:
            raise self._unexpected(wanted) from None
        self._position = found.end()
        return value

    def _peek(self) -> str:
        """The next character that is not a space; "" at the end."""
        found = _SPACE.match(self._text, self._position)
        if found is not None:
            self._position = found.end()
        return self._text[self._position : self._position + 1]

    def _skip(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._position += 1
        return True

    def _expect(self, character: str) -> None:
        if not self._skip(character):
            raise self._unexpected(repr(character))

    def _unexpected(self, wanted: str) -> BodyError:
        found = self._text[self._position : self._position + 20]
        return BodyError(f"body is not JSON: {wanted} wanted at {self._position}, found {found!r}")


class _References:
    """Replaces the references of a document by their targets."""

    __slots__ = ("_left", "_root")

    def __init__(self, root: object, expansion_max: int) -> None:
        self._root = root
        self._left = expansion_max  # elements that references may still expand to

    def resolved(self, value: object) -> object:
        """`value` without references. Raises BodyError."""
        if isinstance(value, list):
            return [self.resolved(item) for item in value]
        if not isinstance(value, dict):
            return value
        path = value.get(_REFERENCE_KEY)
        if len(value) == 1 and isinstance(path, str):
            return self._target(path)
        return {name: self.resolved(member) for name, member in value.items()}

    def _target(self, path: str) -> object:
        """The value at a path such as `$.consumerDataSet[0].subscriptionDataSet[1]`; it holds no reference itself."""
        position, target = 1, self._root
        if not path.startswith("$"):
            raise BodyError(f"reference {path!r:.80} is not supported, allowed are paths from $")
        while position < len(path):
            step = _REFERENCE_STEP.match(path, position)
            if step is None:
                raise BodyError(f"reference {path!r:.80} is malformed at {position}")
            target = _child(target, step, path)
            position = step.end()
        if self._has_reference(target):
            raise BodyError(f"reference {path!r:.80} leads to a reference")
        return target

    def _has_reference(self, value: object) -> bool:
        """Whether a target holds a reference; counts its elements against the limit."""
        self._left -= 1 + (len(value) // CHARACTERS_AN_ELEMENT if isinstance(value, str) else 0)
        if self._left < 0:
            raise BodyError("body has references that stand for too many elements")
        if isinstance(value, list):
            return any(map(self._has_reference, value))
        if not isinstance(value, dict):
            return False
        return _REFERENCE_KEY in value or any(map(self._has_reference, value.values()))


def _child(parent: object, step: re.Match[str], path: str) -> object:
    name, index = step.groups()
    if isinstance(parent, dict) and name in parent:
        return parent[name]
    if (
        isinstance(parent, list)
        and index is not None
        and len(index) < 10
        and int(index) < len(parent)
    ):
        return parent[int(index)]
    raise BodyError(f"reference {path!r:.80} leads nowhere")
