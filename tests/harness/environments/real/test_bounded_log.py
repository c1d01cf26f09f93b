"""A client that floods its standard error: detected, and the flood is removed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from staticfire.harness.environments.real import bounded_log
from staticfire.harness.environments.real.bounded_log import BoundedLog
from staticfire.harness.simulation.hosts.world import World

EARLIER = b"of a process before\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bounded_log, "BYTES_MAX", 1000)
    monkeypatch.setattr(bounded_log, "KEPT_BYTES", 10)
    path = tmp_path / "log"
    path.write_bytes(EARLIER)
    return path


@pytest.mark.parametrize(("size", "complaints"), [(1000, 0), (1001, 1)])
def test_what_one_process_writes_is_bounded(size: int, complaints: int, log: Path) -> None:
    said: list[str] = []

    async def main() -> None:
        bounded = BoundedLog(log)
        guard = asyncio.create_task(bounded.guard(said.append))
        await asyncio.sleep(1)
        with log.open("ab") as file:
            file.write(b"x" * size)
        await asyncio.sleep(1)
        assert guard.done() == bool(complaints)
        guard.cancel()
        bounded.cut()

    World(1).run(main)
    assert said == ["it wrote more than 1000 bytes to standard error"] * complaints
    assert log.read_bytes() == EARLIER + b"x" * (10 if complaints else size)


def test_a_process_that_has_written_nothing_has_no_file(tmp_path: Path) -> None:
    bounded = BoundedLog(tmp_path / "none")
    bounded.cut()
    assert not (tmp_path / "none").exists()
