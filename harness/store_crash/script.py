"""The moves of a cycle of the storage crash test, as data.

Each move has a seed of its own. A move draws from its own seed alone, so the others stay as they are if it is left
out. `shrinking` does that.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from staticfire.harness.store_crash.plan import BODY_SIZE_MAX, LOG_FOLDERS, CyclePlan

FORMAT = 1
SEED_MAX = (1 << 32) - 1
# Least and greatest value of each number of a plan; a file of the log takes the largest drawn body.
LIMITS = {
    "log_file_size": (640, 1 << 20),
    "queue_file_size": (20, 1 << 20),
    "index_slots": (1, 1 << 16),
    "index_numbers": (2, 1 << 16),
    "body_size": (0, BODY_SIZE_MAX),  # or null: drawn
    "lives": (1, 100),
    "log_folders": (1, len(LOG_FOLDERS)),
}


class MoveKind(Enum):
    """The kinds of moves. A move that the state of the store does not allow does nothing."""

    WORK = "work"  # one step of load, flush, dispatch, retention or truncation
    ARM = "arm"  # choose how this life ends
    CLOSE = "close"
    DIE = "die"
    BROKEN_START = "broken start"  # the power fails, or the process dies, during a start
    FAILED_START = "failed start"  # a write or sync of a start fails
    START = "start"  # and compare with the model
    START_AGAIN = "start again"  # right after a start: the process dies, or the store is closed and its disk harmed


class Move(NamedTuple):
    """One move. `seed` decides what it draws, and what the disk draws during it."""

    kind: MoveKind
    seed: int


@dataclass(frozen=True, slots=True)
class Script:
    """The parameters and the moves of a cycle."""

    plan: CyclePlan
    moves: tuple[Move, ...]

    def to_text(self, **texts: str) -> str:
        """Return the script as JSON, with texts about it."""
        moves = [[move.kind.value, move.seed] for move in self.moves]
        document = {"format": FORMAT, **texts, "plan": asdict(self.plan), "moves": moves}
        return json.dumps(document, indent=2) + "\n"


def drawn_move(random: Random, kind: MoveKind) -> Move:
    """Return a move with a drawn seed."""
    return Move(kind, random.getrandbits(32))


def script_of(text: str) -> tuple[Script, dict[str, str]]:
    """Read a script and the texts about it.

    Raises ValueError with a sentence if the text is no script.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    try:
        return _script_of(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"not a cycle of crash-store: {reason}") from error


def _script_of(document: dict[str, Any]) -> tuple[Script, dict[str, str]]:
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']!r}; this version reads {FORMAT}")
    moves = tuple(Move(MoveKind(kind), _whole("a seed", seed)) for kind, seed in document["moves"])
    plan = CyclePlan(**document["plan"])
    for field in fields(CyclePlan):
        given = getattr(plan, field.name)
        if field.name in LIMITS:
            _whole(field.name, 0 if given is None else given, *LIMITS[field.name])
        elif not isinstance(given, bool):
            raise TypeError(f"{field.name} is {given!r}; allowed: true, false")
    texts = {name: text for name, text in document.items() if isinstance(text, str)}
    return Script(plan, moves), texts


def _whole(name: str, given: object, least: int = 0, most: int = SEED_MAX) -> int:
    if type(given) is not int or not least <= given <= most:
        raise ValueError(f"{name} is {given!r}; allowed: whole numbers from {least} to {most}")
    return given
