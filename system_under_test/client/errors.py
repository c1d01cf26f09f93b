"""Errors that this library raises."""

from __future__ import annotations


class ClientError(Exception):
    """Base class of the library's own errors."""


class NoNameServer(ClientError):
    """No name server answered in time (RocketMQ: ClientErrorCode 10004)."""


class RouteNotFound(ClientError):
    """Name servers answered, and none of them has the topic (RocketMQ: ClientErrorCode 10005)."""


class BrokerNotAvailable(ClientError):
    """No address of the broker answers, or the route has none (RocketMQ: ClientErrorCode 10003)."""


class BrokerRefused(ClientError):
    """A broker answered with a code that is not a result; `code` is that code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
