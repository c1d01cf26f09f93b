"""Breaks links between a `LocalCluster` and clients that use a proxy in front of it, for tests of such clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

from staticfire.faults.proxy import LinkFault, Proxy
from staticfire.harness.local_cluster.cluster import LocalCluster

T = TypeVar("T")


class ClusterLinks:
    """Breaks links of clients that use `name_server_address`, the proxy's; other clients are not affected.

        with ClusterLinks(cluster) as links:
            producer = Producer(name_servers=links.name_server_address)
            fault = links.freeze(server="broker-a-0")
            ...
            links.heal()
            assert fault.bitten

    `client` and `server` have the names of `staticfire proxy`: "*", "brokers", "broker-a-0", a group, a client id.
    All methods may be called from any thread.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._proxy = Proxy(cluster.name_servers)

    def __enter__(self) -> Self:
        self._cluster.run(self._proxy.start())
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.run(self._proxy.stop())

    @property
    def name_server_address(self) -> str:
        """The clients' namesrvAddr: `host:port`, joined with `;`."""
        return self._on_loop(lambda: self._proxy.name_server_address)

    def name_servers_for(self, client: str) -> str:
        """Return addresses for one client alone, which faults may name from then on. Raises PortError."""
        return self._on_loop(lambda: self._proxy.name_servers_for(client))

    def delay(self, delay_ms: float, *, client: str = "*", server: str = "*") -> LinkFault:
        """Delay all bytes, in each direction. Raises LinkFaultError."""
        return self._on_loop(lambda: self._proxy.delay(delay_ms, client=client, server=server))

    def limit(self, bytes_per_s: int, *, client: str = "*", server: str = "*") -> LinkFault:
        """Limit the bytes a second, in each direction. Raises LinkFaultError."""
        return self._on_loop(lambda: self._proxy.limit(bytes_per_s, client=client, server=server))

    def drop(self, *, client: str = "*", server: str = "*", direction: str = "both") -> LinkFault:
        """Make a long partition: discard bytes, with connections open until the heal. Raises LinkFaultError."""
        return self._on_loop(
            lambda: self._proxy.drop(client=client, server=server, direction=direction)
        )

    def freeze(self, *, client: str = "*", server: str = "*", direction: str = "both") -> LinkFault:
        """Make a short partition or a hanging host: hold all bytes back until the heal. Raises LinkFaultError."""
        return self._on_loop(
            lambda: self._proxy.freeze(client=client, server=server, direction=direction)
        )

    def cut(self, *, client: str = "*", server: str = "*") -> LinkFault:
        """Reset connections, also new ones, until the heal."""
        return self._on_loop(lambda: self._proxy.cut(client=client, server=server))

    def heal(self) -> None:
        """End all faults."""
        self._on_loop(self._proxy.heal)

    def _on_loop(self, call: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return call()

        return self._cluster.run(on_loop())
