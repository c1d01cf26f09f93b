"""The ledger of a farm: a JSON line for each ended round. The state of a farm follows from its ledger alone."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from staticfire.checkers.model.typed_fields import check_types
from staticfire.harness.cli.status import BadInput, of_a_file

DAY_S = 86_400
Kind = Literal["hunt", "canary", "shrink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One ended round. `name`: a workload, a planted bug, or the cause that was shrunk."""

    kind: str
    name: str
    commit: str
    first: int  # seed
    last: int
    started_s: int  # since 1970
    cpu_s: float
    error: str = ""  # why it has no result, in one sentence
    is_found: bool = False  # a canary: the planted bug; a shrink: a regression was written
    answers: dict[str, int] = field(default_factory=dict)  # valid, invalid, unknown, failed: seeds
    behaviours: dict[str, int] = field(
        default_factory=dict
    )  # new behaviours: mark and count, base 2
    causes: dict[str, int] = field(default_factory=dict)  # of invalid seeds: the first seed
    cause_seeds: dict[str, int] = field(default_factory=dict)  # seeds by cause

    @property
    def seeds(self) -> int:
        return sum(self.answers.values())

    @property
    def day(self) -> str:
        return day_of(self.started_s)


def day_of(at_s: float) -> str:
    """Return the day in UTC, such as 2026-11-26."""
    return time.strftime("%Y-%m-%d", time.gmtime(at_s))


class Ledger:
    """The rounds so far, oldest first. Raises BadInput for a file that is no ledger."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rounds: list[Round] = _read(path)

    def add(self, one: Round) -> None:
        """Raises BadInput, HarnessError."""
        try:
            with self._path.open("ab") as file:
                file.write(orjson.dumps(asdict(one)) + b"\n")
        except OSError as error:
            raise of_a_file(error, self._path) from error
        self.rounds.append(one)

    def of(self, kind: Kind) -> list[Round]:
        return [one for one in self.rounds if one.kind == kind]

    def cpu_s(self, day: str) -> float:
        """Return the CPU seconds of a day's rounds."""
        return sum(one.cpu_s for one in self.rounds if one.day == day)


def _read(path: Path) -> list[Round]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise of_a_file(error, path) from error
    complete, _, torn = data.rpartition(b"\n")
    if torn:  # the end of a write that a kill or a full disk cut off
        os.truncate(path, len(data) - len(torn))
    return [_round(line, f"{path}: line {at}") for at, line in enumerate(complete.splitlines(), 1)]


def _round(line: bytes, where: str) -> Round:
    try:
        row: dict[str, Any] = orjson.loads(line)
        found = Round(**row)
        check_types(found, Round, "round")
    except (ValueError, TypeError) as error:
        raise BadInput(f"{where} is no round of a farm: {error}") from error
    return found


def known_behaviours(rounds: Sequence[Round]) -> dict[str, int]:
    """Return the highest count, base 2, of each mark."""
    known: dict[str, int] = {}
    for one in rounds:
        for name, bits in one.behaviours.items():
            known[name] = max(bits, known.get(name, 0))
    return known
