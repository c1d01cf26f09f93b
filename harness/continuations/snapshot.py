"""A process that holds a run stopped at one virtual time and forks continuations from it.

The simulation is one process and one thread, so a fork is a copy of the whole world. Commands are JSON packets over a
socket, each with one file descriptor:

    {"rewind": [t, k, ...]} a child continues to the verdict, and writes its outcome to the descriptor, a pipe
    {"at_ns": t}            a child continues unchanged to `t`, and takes commands there from the descriptor, a socket

If a fork fails, the process closes the descriptor. The process ends when its socket is closed.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any, NoReturn

import orjson

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.continuations.rewind import (
    Outcome,
    Rewind,
    diverge,
    outcome_of,
    outcome_of_error,
)
from staticfire.harness.runs.simulated_runner import LiveRun, run_simulated

COMMAND_BYTES_MAX = 4096
Fork = Callable[[], int]


class Snapshot:
    """A run held at one virtual time. `fork` is os.fork, or a test's substitute."""

    def __init__(self, commands: socket.socket, fork: Fork) -> None:
        self._commands = commands
        self._fork = fork
        self._answer: int | None = None  # the pipe of a continuation
        self._way_s = 0.0  # CPU time of the run up to here, which the first continuation reports

    def run(self, campaign: Campaign) -> NoReturn:
        """Run, stop at once, and serve. Does not return: all processes forked from this one exit here."""
        try:
            try:
                result = run_simulated(campaign, begun=self._begun)
                outcome = outcome_of(result, round(self._way_s + time.process_time(), 3))
            except Exception as error:
                outcome = outcome_of_error(error)
            self._send(outcome)
        finally:
            os._exit(0)

    def _begun(self, live: LiveRun) -> None:
        live.at(0, self._serve)

    def _serve(self, live: LiveRun) -> None:
        """Take commands; return in children only."""
        self._way_s = time.process_time()
        gc.freeze()  # a collection would write to every shared page
        while True:
            command, descriptor = self._next()
            try:
                is_child = self._fork() == 0
            except OSError:
                is_child = False
            if is_child:
                return self._begin(live, command, descriptor)
            os.close(descriptor)
            if "rewind" in command:
                self._way_s = 0.0

    def _next(self) -> tuple[dict[str, object], int]:
        packet, descriptors, _, _ = socket.recv_fds(self._commands, COMMAND_BYTES_MAX, 1)
        if not packet or not descriptors:
            os._exit(0)
        return orjson.loads(packet), descriptors[0]

    def _begin(self, live: LiveRun, command: dict[str, Any], descriptor: int) -> None:
        live.world.loop.go_on_in_child()
        self._commands.close()
        if "at_ns" in command:
            self._commands = socket.socket(fileno=descriptor)
            live.at(command["at_ns"], self._serve)
        else:
            self._answer = descriptor
            diverge(live, Rewind(*command["rewind"]))

    def _send(self, outcome: Outcome) -> None:
        if self._answer is not None:
            with open(self._answer, "wb") as pipe:
                pipe.write(orjson.dumps(outcome.to_json()))


def start_snapshot(campaign: Campaign, fork: Fork) -> tuple[int, socket.socket]:
    """Fork the snapshot of the start; return its process, which leads a group of its own, and its socket.

    Raises OSError if there is no process or no memory left.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        pid = fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if not pid:
        ours.close()
        _begin_process()
        Snapshot(theirs, fork).run(campaign)
    theirs.close()
    return pid, ours


def _begin_process() -> None:
    os.setpgid(0, 0)  # Ctrl-C goes to the parent, which kills the group
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children of snapshots
