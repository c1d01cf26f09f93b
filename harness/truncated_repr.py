"""Formats rejected values for error messages, and text of peers for terminals."""

from __future__ import annotations

import json

SHOWN_MAX = 100  # characters


def printable(text: str) -> str:
    """Return one line for a terminal. Control characters and marks that change the text direction become escapes."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def printable_json(data: bytes) -> str:
    """Return JSON that is safe on a terminal: C1 controls and marks that change the direction of text are escaped."""
    text = data.decode()
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text
    ).replace("\x7f", "\\u007f")


def truncated_repr(value: object) -> str:
    """Return the value's repr, cut off after SHOWN_MAX characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python does not print a number of 5000 digits
        return f"a {type(value).__name__} too large to print"
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
