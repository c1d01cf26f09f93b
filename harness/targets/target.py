"""The interfaces of a target, on real machines and in the simulation: how nodes and clients are started."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol

from staticfire.harness.clients.configuration import Configuration
from staticfire.harness.clients.consumer import ListenerControl
from staticfire.harness.clients.port import ClientPort
from staticfire.harness.machines.machine import LaunchSpec
from staticfire.system_under_test.runtime.env import Env

Main = Callable[[Env], Coroutine[object, object, None]]


class Target(Protocol):
    """One cluster on real machines, configured for one campaign."""

    def server_address(self, node: str) -> str:
        """Return `host:port` of a name server or broker."""
        ...

    def server_launch_spec(self, node: str, bootstrap: Sequence[str]) -> LaunchSpec:
        """Return how to start a name server or broker; a broker registers with these name servers (nodes)."""
        ...

    def change_specification(self, node: str) -> None:
        """Give the consumer, from its next start on, the specification that its workload calls `changed`."""
        ...

    def client_launch_spec(
        self, node: str, bootstrap: Sequence[str]
    ) -> tuple[LaunchSpec, Configuration]:
        """Return how to start a client, and its first line."""
        ...

    def store_folder(self, node: str) -> str:
        """Return the folder of a server's files on its machine."""
        ...


class SimulatedTarget(Protocol):
    """One cluster in the simulation, configured for one campaign."""

    def server_address(self, node: str) -> str:
        """Return `host:port` of a name server or broker."""
        ...

    def server_main(self, node: str, bootstrap: Sequence[str]) -> Main:
        """Return the coroutine of a name server or broker; a broker registers with these name servers (nodes)."""
        ...

    def client_main(
        self,
        node: str,
        bootstrap: Sequence[str],
        port: ClientPort,
        listener: ListenerControl,
        process: int,
    ) -> Main:
        """Return the coroutine of a client, which answers the requests of `port`.

        `listener` sets the behaviour of a consumer's listener. The client emits ops of its own as `process`.
        """
        ...

    def change_specification(self, node: str) -> None:
        """Give the consumer, from its next start on, the specification that its workload calls `changed`."""
        ...

    def speaks_tls(self, node: str) -> bool:
        """Whether the node connects with TLS."""
        ...
