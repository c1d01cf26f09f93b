"""A client ends when the harness asks it to, whatever the library does."""

from __future__ import annotations

import subprocess
import sys

from tests.support.client_processes import ROOT

PROGRAM = """
import asyncio, sys, threading
from staticfire.harness.clients.cpp import stopping
stopping.STOP_TIMEOUT_S = 0.05
stops = {"hangs": threading.Event().wait, "stops": lambda: None}
asyncio.run(stopping.stop_in_time(stops[sys.argv[1]]))
print("stopped")
"""


def run(how: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, how]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_a_library_that_stops_is_waited_for() -> None:
    ended = run("stops")
    assert (ended.returncode, ended.stdout) == (0, "stopped\n")


def test_a_library_that_hangs_is_left() -> None:
    ended = run("hangs")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "librocketmq did not stop within 0.05 s.\n"
