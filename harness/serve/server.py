"""The server: uvicorn on a listening socket."""

from __future__ import annotations

import ipaddress
import socket

import uvicorn

from staticfire.harness.serve.app import application
from staticfire.harness.serve.folder import ServedFolder
from staticfire.harness.serve.security import TokenCheck

CONNECTIONS_MAX = 1000  # answered at one time; more get 503
KEEP_ALIVE_S = 5
HEAD_BYTES_MAX = 32 << 10  # of a request's first line and headers
STOP_S = 2  # seconds to wait for answers under way


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 chooses a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
    except BaseException:
        listener.close()
        raise
    return listener


def serve_runs(folder: ServedFolder, listener: socket.socket, token: str | None) -> None:
    """Answer requests until a signal ends it."""
    check = None if token is None else TokenCheck(token, listener.getsockname()[1])
    config = uvicorn.Config(
        application(folder, check),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # wrong requests must not fill a log
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )
    uvicorn.Server(config).run(sockets=[listener])
