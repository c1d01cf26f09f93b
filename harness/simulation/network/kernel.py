"""The network stack of one host: its ports, backlogs and sockets. It survives processes, but not a power cut."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter, deque
from collections.abc import Callable
from contextvars import Context
from typing import Protocol

from staticfire.harness.simulation.network.handshake import Handshake
from staticfire.harness.simulation.network.network import Network
from staticfire.harness.simulation.network.tcp import Address, TcpSocket
from staticfire.harness.simulation.scheduling.run_queue import RunQueue

ANY = "0.0.0.0"
LOOPBACK = "127.0.0.1"
EPHEMERAL_PORT_MIN = 32_768  # Linux: ip_local_port_range
EPHEMERAL_PORT_MAX = 60_999


class Acceptor(Protocol):
    """The process's side of a listening port."""

    def acceptable(self) -> None:
        """Called when a connection waits in the backlog."""
        ...


class Listener:
    """A listening port. The kernel completes handshakes and fills the backlog whether or not the process accepts."""

    def __init__(self, address: Address, backlog: int, acceptor: Acceptor) -> None:
        self.address = address
        self.waiting: deque[TcpSocket] = deque()
        self.backlog = backlog
        self._acceptor = acceptor
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        return len(self.waiting) > self.backlog

    def add(self, socket: TcpSocket) -> bool:
        """Put `socket` into the backlog; return False if the process no longer listens."""
        if not self._is_closed:
            self.waiting.append(socket)
            self._acceptor.acceptable()
        return not self._is_closed

    def close(self) -> None:
        """Stop listening; connections that wait in the backlog are reset."""
        self._is_closed = True
        while self.waiting:
            socket = self.waiting.popleft()
            if socket.outbound is not None and not socket.is_gone:
                socket.outbound.reset_target()
            socket.vanish()


class Kernel:
    """The ports and sockets of one host. A process may bind its address, 0.0.0.0 and 127.0.0.1."""

    def __init__(
        self, name: str, address: str, network: Network, random: Callable[[], float]
    ) -> None:
        self.name = name
        self.address = address
        self.network = network
        self.random = random
        self.powered = True
        self.sockets: dict[int, TcpSocket] = {}
        self._ports: Counter[int] = Counter()  # sockets by local port
        self._listeners: dict[Address, Listener] = {}
        self._last_number = 0
        self._last_port = EPHEMERAL_PORT_MIN - 1

    # --- for processes ------------------------------------------------------------------------------

    def listen(self, host: str | None, port: int, backlog: int, acceptor: Acceptor) -> Listener:
        """Bind and listen; port 0 lets the kernel choose a port."""
        host = {None: ANY, "": ANY, "localhost": LOOPBACK, self.name: self.address}.get(host, host)
        assert host is not None
        if host not in (ANY, LOOPBACK, self.address):
            raise OSError(errno.EADDRNOTAVAIL, f"cannot bind {host}: this host is {self.address}")
        port = port or self._free_port()
        if any(self._is_conflict(taken, (host, port)) for taken in self._listeners):
            raise OSError(errno.EADDRINUSE, f"address already in use: {host}:{port}")
        listener = self._listeners[host, port] = Listener((host, port), backlog, acceptor)
        return listener

    @staticmethod
    def _is_conflict(taken: Address, wanted: Address) -> bool:
        """Whether a listener of the port has this address; 0.0.0.0 is every address."""
        is_same = taken[0] == wanted[0] or ANY in (taken[0], wanted[0])
        return taken[1] == wanted[1] and is_same

    def close_listener(self, listener: Listener) -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]
        listener.close()

    def connect(
        self,
        host: str,
        port: int,
        owner: RunQueue,
        connected: asyncio.Future[None],
        context: Context,
    ) -> TcpSocket:
        """Begin to connect; `connected` gets None or an OSError in a later turn of `owner`."""
        is_local = host in ("localhost", LOOPBACK, ANY)
        target = self if is_local else self.network.kernel_at(host)
        local = LOOPBACK if is_local else self.address
        remote = LOOPBACK if is_local else (target.address if target else host)
        socket = self.new_socket(local=(local, self._free_port()), remote=(remote, port))
        Handshake(socket, target, owner, connected, context).send_syn()
        return socket

    def close_all(self) -> None:
        """Close all sockets of a process that has ended."""
        for listener in list(self._listeners.values()):
            self.close_listener(listener)
        for socket in list(self.sockets.values()):
            if socket.user is not None:
                socket.user.detach()
            socket.close()

    # --- for the network ----------------------------------------------------------------------------

    def listener(self, address: Address) -> Listener | None:
        """Return the listener at this address of this host, or None."""
        return self._listeners.get(address) or self._listeners.get((ANY, address[1]))

    def new_socket(self, *, local: Address, remote: Address) -> TcpSocket:
        self._last_number += 1
        socket = TcpSocket(self, self._last_number, local, remote)
        self.sockets[socket.number] = socket
        self._ports[local[1]] += 1
        return socket

    def forget(self, socket: TcpSocket) -> None:
        """Forget a socket; a later segment for it is answered with RST."""
        if self.sockets.pop(socket.number, None) is not None:
            self._ports[socket.local[1]] -= 1

    # --- power --------------------------------------------------------------------------------------

    def power_off(self, now_ns: int) -> None:
        """Drop all sockets at once, without RST or FIN. Segments that have not left by `now_ns` are lost."""
        self.powered = False
        for socket in list(self.sockets.values()):
            if socket.user is not None:
                socket.user.detach()
            socket.power_lost_ns = now_ns
            socket.vanish()
        self._listeners.clear()
        self.network.power_changed(self)

    def power_on(self) -> None:
        self.powered = True
        self.network.power_changed(self)

    def _free_port(self) -> int:
        listening = {port for _, port in self._listeners}
        port = self._last_port
        for _ in range(EPHEMERAL_PORT_MAX - EPHEMERAL_PORT_MIN + 1):
            port = port + 1 if port < EPHEMERAL_PORT_MAX else EPHEMERAL_PORT_MIN
            if not self._ports[port] and port not in listening:
                self._last_port = port
                return port
        raise OSError(errno.EADDRNOTAVAIL, f"no free port left on {self.name}")
