"""The file of a table: a JSON line for each run, appended when the run is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from staticfire.checkers.guarantees.former_names import current_name
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.model.plain_files import read_plain
from staticfire.harness.cli.status import BadInput, HarnessError
from staticfire.harness.truncated_repr import truncated_repr

NOT_HERE = "not here"  # the environment lacks a fault of the campaign
SIMULATION_ONLY = "simulation only"  # every real environment lacks it
JUDGED = ("valid", "invalid", "unknown")
VERDICTS = (*JUDGED, NOT_HERE, SIMULATION_ONLY)
FILE_BYTES_MAX = 64 << 20


class Cell(NamedTuple):
    """One run of a table: a seed of a campaign in an environment, on a target."""

    target: str
    campaign: str  # name or file
    environment: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of a cell."""

    target: str
    campaign: str
    environment: str
    seed: int
    verdict: str  # one of VERDICTS
    reason: str = ""  # why it is unknown, or not here
    anomalies: Mapping[str, int] = field(default_factory=dict)  # violations
    acknowledged: int = 0  # messages
    wall_s: float = 0.0
    run: str = ""  # folder of the run
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def cell(self) -> Cell:
        return Cell(self.target, self.campaign, self.environment, self.seed)


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "Mapping[str, int]": (dict,),
    "Mapping[str, str]": (dict,),
}


class Table:
    """The rows of a file, which may be missing. The last row of a cell counts.

    A last line without its end, as after a kill, is dropped.

    Raises BadInput for a file that is no table or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[Cell, Row] = {}
        try:
            data = read_plain(path, FILE_BYTES_MAX)
        except FileNotFoundError:
            data = b""
        except HistoryError:
            raise BadInput(
                f"--out is {str(path)!r}; allowed: a plain file of at most {FILE_BYTES_MAX} bytes"
            ) from None
        except OSError as error:
            raise BadInput(f"--out {path} cannot be read: {error.strerror}") from error
        self._size = data.rfind(b"\n") + 1
        for number, line in enumerate(data[: self._size].splitlines(), 1):
            row = _read(line, f"--out {path} line {number}")
            self.rows[row.cell] = row

    def is_done(self, cell: Cell) -> bool:
        """Whether the cell has a run that was judged."""
        return cell in self.rows and self.rows[cell].verdict in JUDGED

    def begin(self) -> None:
        """Make the file ready for more rows. Raises BadInput if it cannot be written."""
        try:
            with self.path.open("ab") as file:
                file.truncate(self._size)
        except OSError as error:
            raise BadInput(f"--out {self.path} cannot be written: {error.strerror}") from error

    def add(self, row: Row) -> None:
        """Raises HarnessError."""
        if self.rows.get(row.cell) == row:
            return
        self.rows[row.cell] = row
        try:
            with self.path.open("ab") as file:
                file.write(orjson.dumps(asdict(row)) + b"\n")
        except OSError as error:
            raise HarnessError(f"--out {self.path} cannot be written: {error.strerror}") from error


def _read(line: bytes, where: str) -> Row:
    """Raises BadInput."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise BadInput(f"{where} is {truncated_repr(line)}; allowed: a row of `staticfire table`")
    values: dict[str, Any] = {}
    for of in fields(Row):
        value = found.get(of.name)
        if type(value) not in _KINDS[str(of.type)]:
            raise BadInput(
                f"{where}: {of.name} is {truncated_repr(value)}; allowed: a row of `staticfire table`"
            )
        values[of.name] = value
    if values["verdict"] not in VERDICTS:
        raise BadInput(
            f"{where}: verdict is {truncated_repr(values['verdict'])}; allowed: {', '.join(VERDICTS)}"
        )
    values["anomalies"] = {current_name(name): count for name, count in values["anomalies"].items()}
    return Row(**values)
