"""One short run with a slave and two faults, and its files as plain records."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from staticfire.harness.cli import status_of

SHORT = ("--masters", "1", "--slaves", "1", "--time", "6", "--faults", "kill,power-cut")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run folder, and what the tests hold the exports against."""

    folder: Path
    ops: list[dict[str, Any]]
    faults: list[dict[str, Any]]

    def sent(self, *types: str) -> set[str]:
        """Keys of sends that ended so."""
        return {op["value"]["key"] for op in self.ops if op["f"] == "send" and op["type"] in types}

    def delivered(self) -> list[tuple[str, str]]:
        """(group, key) of each message that a listener was given, in the order of the history."""
        calls = [op for op in self.ops if op["f"] == "consume" and op["type"] == "invoke"]
        return [(op["value"]["group"], row[0]) for op in calls for row in op["value"]["messages"]]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    runs = tmp_path_factory.mktemp("exported")
    status_of(["run", "--seed", "3", *SHORT, "--runs", str(runs)])
    [folder] = runs.iterdir()
    return read(folder)


@pytest.fixture
def damaged(recorded: Recorded, tmp_path: Path) -> Path:
    """A copy of the run without checksums, to be changed."""
    folder = Path(shutil.copytree(recorded.folder, tmp_path / "run"))
    verdict = json.loads((folder / "verdict.json").read_text())
    del verdict["checksums"]
    (folder / "verdict.json").write_text(json.dumps(verdict))
    return folder


def read(folder: Path) -> Recorded:
    lines = {
        name: [json.loads(line) for line in (folder / name).read_text().splitlines()]
        for name in ("history.jsonl", "faults.jsonl")
    }
    return Recorded(folder, lines["history.jsonl"], lines["faults.jsonl"])


def rewrite(folder: Path, replaced: str, by: str) -> None:
    """Replace a name in what was recorded; facts with other names than the campaign's are refused."""
    inside = json.dumps(by)[1:-1]
    paths = [*folder.glob("*.jsonl"), *folder.glob("nodes/*/log.jsonl")]
    for path in (one for one in paths if one.is_file()):
        path.write_text(path.read_text().replace(replaced, inside))
