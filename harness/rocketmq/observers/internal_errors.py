"""Finds errors in the logs of our own nodes that only a programming mistake can raise."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Iterator
from typing import Any

from staticfire.harness.log_line import LogLine

KINDS_MAX = 20  # different errors reported for one node
TEXT_MAX = 300  # characters of an error
# The operating system and peers raise these. Our own nodes define classes for what they raise on purpose.
FROM_OUTSIDE = (OSError, EOFError, MemoryError, Warning)
FROM_INSIDE = frozenset(
    {
        *(
            name
            for name, one in vars(builtins).items()
            if isinstance(one, type)
            and issubclass(one, Exception)
            and not issubclass(one, FROM_OUTSIDE)
        ),
        "InvalidStateError",  # of asyncio
        "error",  # of struct and zlib
    }
)
_TYPED = re.compile(r"(\w+)[(:]")  # the repr of an exception, or a text that begins with its type


def internal_errors(lines: Iterable[LogLine]) -> Iterator[dict[str, Any]]:
    """Yield each kind of such an error: when it came first, the event with its text, and how often."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        error = str(line.fields.get("error", ""))
        typed = _TYPED.match(error)
        if typed is None or typed[1] not in FROM_INSIDE:
            continue
        key = line.event, error
        if key not in found and len(found) < KINDS_MAX:
            said = {"event": line.event, "error": error[:TEXT_MAX]}
            found[key] = {"at_ns": line.time_ns, **said, "times": 0}
        if key in found:
            found[key]["times"] += 1
    yield from found.values()
