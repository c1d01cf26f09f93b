"""A client of the load that is a command: the command followed by producer or consumer starts it."""

from __future__ import annotations

import shlex

CLIENTS = ("own", "cpp")  # the built-in clients; any other text is a command
ROLES = (
    "producer",
    "consumer",
)  # the last argument of a command, and the first part of a node's name
ALLOWED = f"{', '.join(CLIENTS)} or a command"


def is_command(client: str) -> bool:
    return client not in CLIENTS


def split_command(client: str) -> tuple[str, ...]:
    """Return the program and its arguments. Raises ValueError, whose text continues a sentence."""
    if not client.isprintable():
        raise ValueError("it holds a control character")
    words = tuple(shlex.split(client))
    if not words:
        raise ValueError("it is empty")
    return words
