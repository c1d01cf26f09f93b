"""The errors of a remote call."""

from __future__ import annotations


class CannotListen(OSError):
    """A port cannot be bound: which, and why, in one sentence. `errno` is that of the failed call."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        super().__init__(error.errno, error.strerror)
        reason = str(error.strerror).rpartition(": ")[2]  # asyncio puts the address before it
        self._sentence = f"{host}:{port} cannot be listened on: {reason}"

    def __str__(self) -> str:
        return self._sentence


class RemotingError(ConnectionError):
    """A remote call that has no answer."""


class RemotingConnectError(RemotingError):
    """There was no connection in time: the request never left this process."""


class RemotingTimeout(RemotingError):
    """The request was written, and no answer came in time: the peer may or may not have acted on it."""


class RemotingClosed(RemotingError):
    """The connection ended before the answer: the peer may or may not have acted on the request."""
