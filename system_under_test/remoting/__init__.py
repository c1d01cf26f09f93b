"""The network layer of every node: connection <-> frames <-> handler (RocketMQ: rocketmq-remoting).

`RemotingServer` listens, `RemotingClient` connects, and both speak through `Connection`. Handlers are plain
synchronous functions; nothing here knows what a broker or a name server is.
"""

from staticfire.system_under_test.remoting.address import parse_address
from staticfire.system_under_test.remoting.client import RemotingClient
from staticfire.system_under_test.remoting.connection import Connection, Handler
from staticfire.system_under_test.remoting.errors import (
    CannotListen,
    RemotingClosed,
    RemotingConnectError,
    RemotingError,
    RemotingTimeout,
)
from staticfire.system_under_test.remoting.server import RemotingServer, listen
from staticfire.system_under_test.remoting.turn_output import TurnOutput

__all__ = [
    "CannotListen",
    "Connection",
    "Handler",
    "RemotingClient",
    "RemotingClosed",
    "RemotingConnectError",
    "RemotingError",
    "RemotingServer",
    "RemotingTimeout",
    "TurnOutput",
    "listen",
    "parse_address",
]
