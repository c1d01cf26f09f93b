"""What can go wrong with a remote call."""

from __future__ import annotations


class RemotingError(ConnectionError):
    """A remote call that has no answer."""


class RemotingConnectError(RemotingError):
    """There was no connection in time: the request never left this process."""


class RemotingTimeout(RemotingError):
    """The request was written, and no answer came in time: the peer may or may not have acted on it."""


class RemotingClosed(RemotingError):
    """The connection ended before the answer: the peer may or may not have acted on the request."""
