"""An allowlist of hosts, by address or CIDR block, and a bounded log of refusals."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address, ip_network

from staticfire.system_under_test.runtime.env import Log

REFUSALS_LOGGED_MAX = 1_000  # distinct refusals that a node logs
SHOWN_MAX = 100  # characters of a name in a log line or an answer


class AllowedHosts:
    """The hosts of entries such as "10.0.0.7" and "10.0.1.0/24"; without entries, every host.

    Raises ValueError: an entry is neither an address nor a block.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._networks = tuple(map(ip_network, entries))

    @property
    def allows_all(self) -> bool:
        return not self._networks

    def allows(self, host: str) -> bool:
        """Whether the list is empty or covers `host`. It never covers a host name, only addresses."""
        if self.allows_all:
            return True
        try:
            address = ip_address(host)
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)


class RefusalLog:
    """Logs each distinct refusal once, REFUSALS_LOGGED_MAX at most: a peer that keeps trying cannot fill the log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[tuple[str, ...], None] = {}

    def log_once(self, event: str, **fields: str) -> None:
        shown = {name: value[:SHOWN_MAX] for name, value in fields.items()}
        key = (event, *shown.values())
        if key in self._known or len(self._known) >= REFUSALS_LOGGED_MAX:
            return
        self._known[key] = None
        self._log.warning(event, **shown)
