"""The text format of java.util.Properties."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# Limits of a text from an untrusted peer: no node has more than 250 options.
REQUEST_SIZE_MAX = 64 << 10  # characters
REQUEST_LINES_MAX = 2_000

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# Possessive quantifiers: with backtracking the matcher would remember every character of a long line.
_ENTRY = re.compile(r"((?:[^\\=:\s]++|\\.)*+)\s*+[=:]?+\s*+(.*)", re.DOTALL)


def check_request(text: str) -> None:
    """Raises ValueError if the text has more than REQUEST_SIZE_MAX characters or REQUEST_LINES_MAX lines."""
    if len(text) > REQUEST_SIZE_MAX:
        raise ValueError(f"options have {len(text)} characters; allowed: up to {REQUEST_SIZE_MAX}")
    lines = 1 + text.count("\n") + text.count("\r")
    if lines > REQUEST_LINES_MAX:
        raise ValueError(f"options have {lines} lines; allowed: up to {REQUEST_LINES_MAX}")


def parse_properties(text: str) -> dict[str, str]:
    """Names and values; a repeated name has its last value."""
    found = {}
    for line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        assert match is not None, "the pattern matches every text"
        found[_unescape(match[1])] = _unescape(match[2]).strip()
    return found


def format_properties(values: Mapping[str, str]) -> str:
    """The text that `parse_properties` reads back, without empty values."""
    return "".join(f"{name}={_escape_value(value)}\n" for name, value in values.items() if value)


def _escape_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank lines; a line that ends with an odd number of backslashes continues."""
    pending: list[str] = []  # the parts of a line that continues
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending.append(line[:-1])
            continue
        yield "".join((*pending, line))
        pending.clear()
    if any(pending):
        yield "".join(pending)


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return _CONTROL.get(match[2], match[2])

    return _ESCAPE.sub(replace, text)
