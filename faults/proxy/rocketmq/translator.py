"""The interface through which rewritten frames get their addresses: it maps each address to its substitute."""

from __future__ import annotations

from typing import Protocol


class Translator(Protocol):
    """The addresses that one client is to dial in place of the real ones.

    Text that is no address, and addresses that are the proxy's already, may come in and are answered sensibly.
    """

    def broker(self, address: str, name: str = "") -> str:
        """In place of a broker's address; `name` is that of the broker, where the frame says it."""
        ...

    def ha(self, address: str, name: str = "") -> str:
        """In place of an address for replication; `name` is that of the broker."""
        ...

    def registered_broker(self, address: str, name: str = "") -> str:
        """What a name server is to publish in place of a broker's own address."""
        ...

    def registered_ha(self, address: str, name: str = "") -> str:
        """The same for the address for replication."""
        ...

    def store_host(self, host: bytes) -> bytes | None:
        """In place of a store host (IP address and 4 bytes of port); None: leave it. The size is the same."""
        ...
