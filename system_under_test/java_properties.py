"""The text format of java.util.Properties."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

__all__ = ["format_properties", "parse_properties"]

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ENTRY = re.compile(r"((?:[^\\=:\s]|\\.)*)\s*[=:]?\s*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Names and values; a name that comes twice has its last value."""
    found = {}
    for line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        assert match is not None, "the pattern matches every text"
        found[_unescape(match[1])] = _unescape(match[2]).strip()
    return found


def format_properties(values: Mapping[str, str]) -> str:
    """The text that `parse_properties` reads back; what is empty is left out."""
    return "".join(f"{name}={_escape_value(value)}\n" for name, value in values.items() if value)


def _escape_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blanks; one that ends with an odd number of backslashes goes on."""
    pending = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        pending += line
        backslashes = len(pending) - len(pending.rstrip("\\"))
        if backslashes % 2:
            pending = pending[:-1]
            continue
        yield pending
        pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return _CONTROL.get(match[2], match[2])

    return _ESCAPE.sub(replace, text)
