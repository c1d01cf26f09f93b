"""The state of the links, and totals over their connections."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from staticfire.faults.proxy.core.counters import FlowCounters
from staticfire.faults.proxy.core.link_faults import Direction
from staticfire.faults.proxy.core.proxied_connection import ProxiedConnection
from staticfire.faults.proxy.core.servers import Server


@dataclass(slots=True, kw_only=True)
class LinkStatus:
    """All connections of one client with one server, including closed ones."""

    client: str
    server: str
    address: str  # the server's own
    open: int = 0  # connections
    opened: int = 0
    cut: int = 0  # reset or refused because of a cut
    torn: int = 0  # reset after a drop that had discarded data
    held: int = 0  # bytes that the proxy holds now
    up: FlowCounters = field(default_factory=FlowCounters)
    down: FlowCounters = field(default_factory=FlowCounters)
    faults: tuple[int, ...] = ()  # numbers of the faults that affect it now

    @property
    def name(self) -> str:
        return f"{self.client}>{self.server}"

    def add(self, proxied: ProxiedConnection) -> None:
        """Count one connection."""
        self.opened += 1
        self.open += not proxied.is_closed
        self.cut += proxied.was_cut
        self.torn += proxied.was_torn
        self.held += proxied.held_size
        self.up.add(proxied.counters[Direction.UP])
        self.down.add(proxied.counters[Direction.DOWN])

    def to_json(self) -> dict[str, object]:
        return {"link": self.name, **asdict(self)}


class Totals:
    """Counts of links: those of closed connections are kept, those of open ones are added on each reading."""

    def __init__(self) -> None:
        self._closed: dict[tuple[str, Server], LinkStatus] = {}

    def keep(self, proxied: ProxiedConnection) -> None:
        """Count a connection that has ended."""
        _link(self._closed, proxied).add(proxied)

    def with_open(
        self, proxied_connections: Iterable[ProxiedConnection]
    ) -> dict[tuple[str, Server], LinkStatus]:
        """Return the totals so far, by client and server."""
        found = {key: _copy(status, key[1]) for key, status in self._closed.items()}
        for proxied in proxied_connections:
            _link(found, proxied).add(proxied)
        return found


def _link(links: dict[tuple[str, Server], LinkStatus], proxied: ProxiedConnection) -> LinkStatus:
    server = proxied.listener.server
    key = proxied.label, server
    if key not in links:
        links[key] = LinkStatus(
            client=proxied.label, server=server.name, address=str(server.address)
        )
    return links[key]


def _copy(status: LinkStatus, server: Server) -> LinkStatus:
    copied = LinkStatus(client=status.client, server=server.name, address=status.address)
    copied.opened, copied.cut, copied.torn = status.opened, status.cut, status.torn
    copied.up.add(status.up)
    copied.down.add(status.down)
    return copied
