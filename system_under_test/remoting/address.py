"""`host:port` as text."""

from __future__ import annotations


def parse_address(text: str) -> tuple[str, int]:
    """Split `host:port`; an IPv6 host stands in brackets. Raises ValueError: one sentence that names the text."""
    host, colon, port_text = text.rpartition(":")
    port = int(port_text) if port_text.isascii() and port_text.isdigit() else -1
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not 0 <= port <= 65535:
        raise ValueError(f"address {text!r} is not host:port with a port of 0..65535")
    return host, port


def format_address(host: str, port: int) -> str:
    """The opposite of parse_address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
