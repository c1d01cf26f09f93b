"""Resources of a process: counted for this process, descriptors by their paths."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import pytest

from staticfire.harness.environments.resources import (
    Resources,
    cpu_s_of_process,
    of_process,
    surplus,
)


def test_surplus_is_what_was_removed_and_what_is_open_again() -> None:
    assert surplus([]) == 0
    assert surplus(["/a", "/b"]) == 0
    assert surplus(["/a", "/a", "/a", "/b"]) == 2
    assert surplus(["/a (deleted)", "/a"]) == 1


def held() -> Resources:
    found = of_process(os.getpid())
    assert found is not None
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_process_of_this_machine(tmp_path: Path) -> None:
    before = held()
    path = tmp_path / "file"
    with socket.socket(), path.open("w"), path.open():
        grown = held()
        path.unlink()
        removed = held()
    after = held()

    assert (grown.life, grown.tasks) == (os.getpid(), None)
    assert grown.memory_bytes is not None
    assert grown.memory_bytes > 1 << 20
    assert grown.threads is not None
    assert grown.threads >= 1
    counts = [(of.sockets, of.surplus_files) for of in (before, grown, removed, after)]
    sockets, files = counts[0]
    assert sockets is not None
    assert files is not None
    assert counts[1:] == [(sockets + 1, files + 1), (sockets + 1, files + 2), (sockets, files)]


def test_a_process_that_has_ended_holds_nothing_that_is_known() -> None:
    assert of_process(2**22 + 1) is None  # beyond the greatest pid of Linux
    assert cpu_s_of_process(2**22 + 1) is None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_the_time_that_processors_worked_for_a_process() -> None:
    before_s = cpu_s_of_process(os.getpid())
    until_s = time.process_time() + 0.1
    while time.process_time() < until_s:
        pass
    after_s = cpu_s_of_process(os.getpid())

    assert before_s is not None
    assert after_s is not None
    assert 0.05 <= after_s - before_s <= 10
