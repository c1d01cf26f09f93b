"""Limits the broker's pending requests to clients (RocketMQ, serverAsyncSemaphoreValue: 64 requests)."""

from __future__ import annotations

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

REQUESTS_MAX = 10_000
SIZE_MAX = 64 << 20  # approximate bytes of all pending requests


class AskedClients:
    """Counts the requests that a broker has relayed to clients, which have some seconds to answer."""

    def __init__(self) -> None:
        self._requests = 0
        self._size = 0

    def begin(self, requests: int, size: int) -> bool:
        """Count `requests` more of together `size` bytes; False, without counting them, if that is too much."""
        if self._requests + requests > REQUESTS_MAX or self._size + size > SIZE_MAX:
            return False
        self._requests += requests
        self._size += size
        return True

    def end(self, requests: int, size: int) -> None:
        """Stop counting requests that are answered or whose time is up."""
        self._requests -= requests
        self._size -= size

    def refuse(self, request: RemotingCommand) -> RemotingCommand:
        """The answer to a request that cannot be relayed now."""
        text = (
            f"{self._requests} requests with {self._size} bytes wait for clients: try again later"
        )
        return RemotingCommand.response(request, ResponseCode.SYSTEM_BUSY, text)
