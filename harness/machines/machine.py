"""The machine of one node, and the launch specification of its process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

LINE_MAX = 16 << 20  # bytes of one line that a client says


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """Where a server is asked whether it is well: its `host:port`, and a request code that it answers in a moment."""

    address: str
    question: int
    tls: bool = False  # whether it answers none but those who speak TLS


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """One process to start. `files` (content by path) are written first; those of `kept` only if missing, durably."""

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    kept: Mapping[str, bytes] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)  # of the environment
    serving: HealthCheck | None = None  # of a server


class RunningProcess(Protocol):
    """One life of a node."""

    @property
    def output(self) -> asyncio.StreamReader:
        """What it says on standard output."""
        ...

    def write(self, data: bytes) -> None:
        """Say something on its standard input; nothing happens if it has ended."""
        ...

    @property
    def is_alive(self) -> bool: ...

    @property
    def pid(self) -> int:
        """On its machine, as root sees it there."""
        ...

    async def wait(self) -> str:
        """Until it has ended; how, in words ("status 0", "SIGKILL")."""
        ...

    async def signal(self, number: int) -> bool:
        """Send a signal; whether there was a process to get it."""
        ...


class Machine(Protocol):
    """The place of one node."""

    node: str
    address: str  # its IP address
    folder: str  # of this node, on its machine
    log: Path  # what the node says on standard error, on ours

    async def launch(self, launch_spec: LaunchSpec) -> RunningProcess:
        """Start a process. Raises OSError, or what the executor raises, if it cannot be started."""
        ...

    async def read_files(self, folder: str) -> dict[str, bytes]:
        """Every file below a folder of the machine by its path there."""
        ...
