"""Opens listening sockets at given ports, or at free ports with the distances that clients expect of a broker."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from staticfire.faults.errors import FaultError
from staticfire.faults.proxy.rocketmq.addresses import PORT_MAX

BACKLOG = 1024
ATTEMPTS_MAX = 50


class PortError(FaultError):
    """The proxy cannot listen on an address. One sentence."""


class NotOurAddress(PortError):
    """The address is not of this machine, so no port of it can be used."""


def listen(host: str, ports: Sequence[int]) -> list[socket.socket]:
    """Return sockets that listen on these ports of an address of this machine; port 0 chooses a free one.

    Raises:
        PortError: a port is in use.
        NotOurAddress: the address is not this machine's.
    """
    sockets: list[socket.socket] = []
    try:
        for port in ports:
            sockets.append(_listen(host, port))
    except OSError as error:
        _close(sockets)
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise NotOurAddress(
                f"{host!r:.100} is no address of this machine; allowed: one of its own, or 0.0.0.0 for all"
            ) from error
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error}"
        raise PortError(f"port {port} on {host} {reason}") from error
    return sockets


def listen_anywhere(host: str, shifts: Sequence[int]) -> list[socket.socket]:
    """Return sockets that listen at a free port and at the given distances from it; the first distance is 0.

    Raises:
        PortError: there are no free ports.
        NotOurAddress: the address is not this machine's.
    """
    for _ in range(ATTEMPTS_MAX):
        [first] = listen(host, [0])
        port = first.getsockname()[1]
        others = [port + shift for shift in shifts[1:]]
        try:
            if all(0 < other <= PORT_MAX for other in others):
                return [first, *listen(host, others)]
        except PortError:
            pass
        first.close()
    raise PortError(f"no free ports on {host} at distances {list(shifts)}")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.setblocking(False)
        found.bind((host, port))
        found.listen(BACKLOG)
    except BaseException:
        found.close()
        raise
    return found


def _close(sockets: Sequence[socket.socket]) -> None:
    for one in sockets:
        one.close()
