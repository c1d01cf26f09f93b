"""One short run, made once, that tests copy and damage."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from staticfire.harness.cli import status_of

SHORT = ("--masters", "1", "--slaves", "0", "--replication", "none", "--time", "5")


@dataclass(frozen=True, slots=True)
class Said:
    """What a command came to."""

    status: int
    out: str
    err: str


Staticfire = Callable[..., Said]


def refused(said: Said, *words: str) -> bool:
    """Whether the command refused its input in one sentence that has these words."""
    one_sentence = said.err.startswith("staticfire: ") and said.err.count("\n") == 1
    return said.status == 254 and one_sentence and all(word in said.err for word in words)


@pytest.fixture
def staticfire(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run the command line in this process."""

    def run(*arguments: object) -> Said:
        capsys.readouterr()
        status = status_of([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Said(status, out, err)

    return run


@pytest.fixture
def staticfire_process() -> Callable[..., Said]:
    """Run the command line in a process of its own: one that plants a defect starts again."""

    def run(*arguments: object) -> Said:
        command = [sys.executable, "-m", "staticfire", *map(str, arguments)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        return Said(ran.returncode, ran.stdout, ran.stderr)

    return run


def short_run(runs: Path, seed: int = 1) -> Path:
    """The folder of a run of 5 virtual seconds."""
    status_of(["run", "--seed", str(seed), *SHORT, "--faults", "kill", "--runs", str(runs)])
    [folder] = runs.iterdir()
    return folder


@pytest.fixture(scope="session")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is not to be changed."""
    return short_run(tmp_path_factory.mktemp("runs"))


def without_checksums(folder: Path) -> Path:
    """The same run as if it had been recorded without checksums, so that its files can be edited."""
    path = folder / "verdict.json"
    document = orjson.loads(path.read_bytes())
    del document["checksums"]
    path.write_bytes(orjson.dumps(document))
    return folder


@pytest.fixture
def run_folder(kept_run: Path, tmp_path: Path) -> Path:
    """A copy of that run to be damaged."""
    return Path(shutil.copytree(kept_run, tmp_path / "run"))
