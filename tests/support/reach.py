"""Whether a machine answers: a refused connection is an answer."""

from __future__ import annotations

from faults.linux.machine import Machine

SCRIPT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 1), timeout=0.3)
except ConnectionRefusedError:
    print("reached")
except TimeoutError:
    print("silence")
"""


async def reach(source: Machine, address: str) -> str:
    """ "reached" or "silence", seen from this machine."""
    script = SCRIPT.encode()
    return (await source.run([source.python, "-", address], input=script)).strip()
