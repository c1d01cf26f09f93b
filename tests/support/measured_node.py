"""Runs a node that says on a Unix socket what its event loop does: `python measured_node.py SOCKET MODULE ARGS...`.

MODULE is what `python -m` would run. Each line that arrives on the socket is answered with a line of JSON:
`longest_turn_ms`, the CPU time of the longest turn of the event loop since the last answer, that of the turn under way
included; `turns`, their number; and `tasks`, the asyncio tasks that have not ended.
"""

from __future__ import annotations

import asyncio
import json
import runpy
import socket
import sys
import threading
import time
from asyncio import base_events
from pathlib import Path
from typing import Any


class Turns:
    """Times each turn of every event loop of the process."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        self._count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clock = 0  # of the CPU time of the loop's thread
        self._began_s: float | None = None  # the turn under way

    def watch(self) -> None:
        """Time the turns of all loops from now on."""
        run_once = base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]

        def timed(loop: asyncio.AbstractEventLoop) -> None:
            self._loop = loop
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
            self._began_s = began_s = time.thread_time()
            run_once(loop)
            self._began_s = None
            self._longest_s = max(self._longest_s, time.thread_time() - began_s)
            self._count += 1

        base_events.BaseEventLoop._run_once = timed  # type: ignore[attr-defined]

    def take(self) -> dict[str, Any]:
        """What the socket answers; the next answer begins anew."""
        longest_s, self._longest_s = self._longest_s, 0.0
        began_s = self._began_s
        if began_s is not None:
            longest_s = max(longest_s, time.clock_gettime(self._clock) - began_s)
        count, self._count = self._count, 0
        tasks = 0 if self._loop is None else len(asyncio.all_tasks(self._loop))
        return {"longest_turn_ms": longest_s * 1000, "turns": count, "tasks": tasks}


def answer(listener: socket.socket, turns: Turns) -> None:
    """Serve one peer after the other, for ever."""
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rw") as lines:
            for _ in lines:
                lines.write(json.dumps(turns.take()) + "\n")
                lines.flush()


def main() -> None:
    path, module, *arguments = sys.argv[1:]
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    turns = Turns()
    turns.watch()
    threading.Thread(target=answer, args=(listener, turns), daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
