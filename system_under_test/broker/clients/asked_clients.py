"""Limits the broker's pending requests to clients (RocketMQ, serverAsyncSemaphoreValue: 64 requests)."""

from __future__ import annotations

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

REQUESTS_MAX = 10_000
SIZE_MAX = 64 << 20  # bytes, about, that they take


class AskedClients:
    """Counts the requests that a broker has passed on to clients, which have some seconds to answer."""

    def __init__(self) -> None:
        self._requests = 0
        self._size = 0

    def begin(self, requests: int, size: int) -> bool:
        """Count requests that take `size` bytes; False if they are too many or too large."""
        if self._requests + requests > REQUESTS_MAX or self._size + size > SIZE_MAX:
            return False
        self._requests += requests
        self._size += size
        return True

    def end(self, requests: int, size: int) -> None:
        """They are answered, or their time is up."""
        self._requests -= requests
        self._size -= size

    def refuse(self, request: RemotingCommand) -> RemotingCommand:
        """The answer to a request that cannot be passed on now."""
        text = (
            f"{self._requests} requests with {self._size} bytes wait for clients: try again later"
        )
        return RemotingCommand.response(request, ResponseCode.SYSTEM_BUSY, text)
