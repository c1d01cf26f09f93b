"""Addresses as RocketMQ writes them in routes and registrations: `ip:port`."""

from __future__ import annotations

from typing import NamedTuple, Self

from staticfire.faults.errors import FaultError

PORT_MAX = 65535


class AddressError(FaultError, ValueError):
    """A text is not an address. One sentence with the text."""


class Address(NamedTuple):
    """A host (a name, or an IP address) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `host:port`; an IPv6 host is in brackets. Raises AddressError for any other text."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not (port.isascii() and port.isdigit() and len(port) <= 5):
            raise AddressError(f"address is {text!r:.80}; allowed: host:port")
        if not 0 < int(port) <= PORT_MAX:
            raise AddressError(f"address is {text!r:.80}; allowed: a port of 1 to {PORT_MAX}")
        return cls(host, int(port))

    @classmethod
    def try_parse(cls, text: object) -> Self | None:
        """Parse a value that may be an address; None for anything else."""
        try:
            return cls.parse(text) if isinstance(text, str) else None
        except AddressError:
            return None

    @classmethod
    def of_socket(cls, name: tuple[str, int]) -> Self:
        """Return the address of a socket, as the operating system reports it. IPv4 inside IPv6 becomes IPv4."""
        return cls(name[0].removeprefix("::ffff:"), name[1])
