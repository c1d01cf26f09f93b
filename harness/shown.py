"""Values in refusals."""

from __future__ import annotations

SHOWN_MAX = 100  # characters


def shown(value: object) -> str:
    """The value as a refusal repeats it, of bearable length."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python does not print a number of 5000 digits
        return f"a {type(value).__name__} too large to print"
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
