"""`check`, `history stats` and `history convert` on a recorded history damaged at random: never a traceback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from staticfire.harness.cli import status_of
from tests.harness.cli.conftest import Said

EXAMPLES = int(os.environ.get("HISTORIES", "6"))  # of each form
STEADY = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
OPS = 400
OTHER_TYPES = [b"null", b"[]", b"{}", b"-1", b"1e400", b'"x"', b"18446744073709551616"]


def damaged(random: Random, data: bytes) -> bytes:
    """The same with flipped bytes, lines swapped or repeated, a value of another type, or a torn end."""
    lines = data.splitlines(keepends=True)
    match random.randrange(5):
        case 0 if data:
            flipped = bytearray(data)
            for _ in range(random.choice([1, 1, 5])):
                flipped[random.randrange(len(flipped))] ^= random.randrange(1, 256)
            return bytes(flipped)
        case 1 if lines:
            one, other = random.randrange(len(lines)), random.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
        case 2 if lines:
            lines.insert(random.randrange(len(lines)), random.choice(lines))
        case 3 if lines:
            at = random.randrange(len(lines))
            words = lines[at].split(b",")
            words[random.randrange(len(words))] = random.choice(OTHER_TYPES)
            lines[at] = b",".join(words)
        case _:
            return data[: random.randrange(len(data) + 1)]
    return b"".join(lines)


@pytest.fixture(scope="session")
def small_run(kept_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of few ops, as lines, columns and EDN; not to be changed."""
    folder = tmp_path_factory.mktemp("small")
    for name in ("campaign.toml", "faults.jsonl"):
        shutil.copy(kept_run / name, folder / name)
    lines = (kept_run / "history.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "history.jsonl").write_bytes(b"".join(lines[:OPS]))
    for name in ("history.parquet", "h.edn"):
        assert (
            status_of(["history", "convert", str(folder / "history.jsonl"), str(folder / name)])
            == 0
        )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("form", ["history.jsonl", "history.parquet", "h.edn"])
@STEADY
@given(seed=st.integers(0, 2**32))
def test_damage_is_a_verdict_or_a_sentence(
    form: str, seed: int, small_run: Path, staticfire: Callable[..., Said]
) -> None:
    random = Random(seed)
    with TemporaryDirectory() as where:
        run = Path(where) / "run"
        shutil.copytree(small_run, run)
        for other in {"history.jsonl", "history.parquet"} - {form}:
            shutil.rmtree(run / other) if (run / other).is_dir() else (run / other).unlink()
        source = run / form
        files = sorted(of for of in source.rglob("*") if of.is_file()) or [source]
        victim = random.choice(files)
        victim.write_bytes(damaged(random, victim.read_bytes()))
        commands = [["check", run], ["history", "stats", source]]
        commands += [
            ["history", "convert", source, Path(where) / f"x{end}"]
            for end in (".jsonl", "", ".edn")
        ]
        for command in commands:
            said = staticfire(*command)
            assert said.status in (0, 1, 2, 254), (command, said)
            assert "Traceback" not in said.out + said.err, (command, said)
