"""The machine of one node, and the launch specification of its process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

LINE_MAX = 16 << 20  # bytes of one line of a client's output


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """A health check of a server: its `host:port`, and the code of a request that a healthy server answers at once."""

    address: str
    question: int
    tls: bool = False  # whether it answers only over TLS


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """The launch specification of one process.

    Attributes:
        files: files to write first, by path.
        kept: the same for files that are written only if they are missing, durably.
        variables: environment variables.
        serving: the health check of a server.
    """

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    kept: Mapping[str, bytes] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    serving: HealthCheck | None = None


class RunningProcess(Protocol):
    """One process of a node."""

    @property
    def output(self) -> asyncio.StreamReader:
        """Its standard output."""
        ...

    def write(self, data: bytes) -> None:
        """Write to its standard input; does nothing if the process has ended."""
        ...

    @property
    def is_alive(self) -> bool: ...

    @property
    def pid(self) -> int:
        """The process id on its machine, as root sees it there."""
        ...

    async def wait(self) -> str:
        """Wait until the process has ended; return how, as text ("status 0", "SIGKILL")."""
        ...

    async def signal(self, number: int) -> bool:
        """Send a signal; return whether there was a process to get it."""
        ...


class Machine(Protocol):
    """The machine of one node."""

    node: str
    address: str  # its IP address
    folder: str  # of this node, on its machine
    log: Path  # file on this machine with the node's standard error

    async def launch(self, launch_spec: LaunchSpec) -> RunningProcess:
        """Start a process. Raises OSError, or what the executor raises, if it cannot be started."""
        ...

    async def read_files(self, folder: str) -> dict[str, bytes]:
        """Return every file below a folder of the machine by its path there."""
        ...
