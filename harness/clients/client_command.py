"""A client of the load that is a command: it becomes one when producer or consumer is added to it."""

from __future__ import annotations

import shlex

CLIENTS = ("own", "cpp")  # those that come with us; any other text is a command
ALLOWED = f"{', '.join(CLIENTS)} or a command"


def is_command(client: str) -> bool:
    return client not in CLIENTS


def split_command(client: str) -> tuple[str, ...]:
    """The program and its arguments. Raises ValueError with what is wrong, as the end of a sentence."""
    if not client.isprintable():
        raise ValueError("it holds a control character")
    words = tuple(shlex.split(client))
    if not words:
        raise ValueError("it is empty")
    return words
