"""What is tested on real machines: how each node of it is started, and with which clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from staticfire.harness.clients.configuration import Configuration
from staticfire.harness.machines.machine import LaunchSpec


class Target(Protocol):
    """One cluster, configured for one campaign."""

    def server_address(self, node: str) -> str:
        """`host:port` of a name server or broker."""
        ...

    def server_launch_spec(self, node: str, name_servers: Sequence[str]) -> LaunchSpec:
        """How to start a name server or broker; a broker registers with these name servers (nodes)."""
        ...

    def ask_anew(self, node: str) -> None:
        """The consumer is told at its next start what its workload calls `changed`."""
        ...

    def client_launch_spec(
        self, node: str, name_servers: Sequence[str]
    ) -> tuple[LaunchSpec, Configuration]:
        """How to start a client, and what it is told first."""
        ...

    def store_folder(self, node: str) -> str:
        """Where a server keeps its files, on its machine."""
        ...
