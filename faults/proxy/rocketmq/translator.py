"""The interface through which rewritten frames get their addresses: it maps each address to its substitute."""

from __future__ import annotations

from typing import Protocol


class Translator(Protocol):
    """The addresses that one client uses in place of the real ones.

    Texts that are no addresses, and addresses of the proxy, are returned unchanged or as the client should use them.
    """

    def broker(self, address: str, name: str = "") -> str:
        """Return the substitute for a broker's address; `name` is the broker's, if the frame has it."""
        ...

    def ha(self, address: str, name: str = "") -> str:
        """Return the substitute for a broker's address for replication; `name` is the broker's."""
        ...

    def registered_broker(self, address: str, name: str = "") -> str:
        """Return the address that a name server publishes for a broker."""
        ...

    def registered_ha(self, address: str, name: str = "") -> str:
        """Return the address for replication that a name server publishes for a broker."""
        ...

    def store_host(self, host: bytes) -> bytes | None:
        """Return the substitute for a store host (IP address and 4 bytes of port), of the same size; None: leave it."""
        ...
