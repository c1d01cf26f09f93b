"""Errors of listening and of remote calls."""

from __future__ import annotations


class CannotListen(OSError):
    """The port cannot be bound; the text names address and reason. `errno` is that of the failed call."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        super().__init__(error.errno, error.strerror)
        reason = str(error.strerror).rpartition(": ")[2]  # asyncio puts the address before it
        self._sentence = f"{host}:{port} cannot be listened on: {reason}"

    def __str__(self) -> str:
        return self._sentence


class RemotingError(ConnectionError):
    """A remote call got no answer."""


class RemotingConnectError(RemotingError):
    """There was no connection in time: the request never left this process."""


class RemotingTimeout(RemotingError):
    """The request was written, and no answer came in time: the peer may or may not have acted on it."""


class RemotingClosed(RemotingError):
    """The connection ended before the answer: the peer may or may not have acted on the request."""
