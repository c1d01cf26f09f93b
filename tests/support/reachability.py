"""Tests whether a machine answers: a refused connection is an answer."""

from __future__ import annotations

from staticfire.faults.linux.machine import LinuxMachine

SCRIPT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 1), timeout=float(sys.argv[2]))
except ConnectionRefusedError:
    print("reached")
except TimeoutError:
    print("silence")
"""


ANSWER_TIMEOUT_S = 20.0  # the machine may be busy
SILENCE_S = 0.3


async def reaches(source: LinuxMachine, address: str) -> bool:
    """Whether this machine has an answer; waits long for one."""
    return await _reach(source, address, ANSWER_TIMEOUT_S) == "reached"


async def hears_nothing(source: LinuxMachine, address: str) -> bool:
    """Whether this machine has no answer for a moment."""
    return await _reach(source, address, SILENCE_S) == "silence"


async def _reach(source: LinuxMachine, address: str, timeout_s: float) -> str:
    argv = [source.python, "-", address, str(timeout_s)]
    return (await source.run(argv, input=SCRIPT.encode())).strip()
