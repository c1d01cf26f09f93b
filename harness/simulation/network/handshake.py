"""The TCP handshake: SYN, SYN-ACK, ACK, and Linux's retries when one of them is lost."""

from __future__ import annotations

import asyncio
import errno
from contextvars import Context
from typing import TYPE_CHECKING

from staticfire.harness.simulation.network.stream import Stream
from staticfire.harness.simulation.network.tcp import TcpSocket
from staticfire.harness.simulation.scheduling.executor import settle
from staticfire.harness.simulation.scheduling.handles import SimHandle
from staticfire.harness.simulation.scheduling.run_queue import RunQueue

if TYPE_CHECKING:
    from staticfire.harness.simulation.network.kernel import Kernel

SYN_TIMEOUT_NS = 1_000_000_000  # Linux: TCP_TIMEOUT_INIT; doubles with every retry
SYN_RETRIES_MAX = 6  # Linux: tcp_syn_retries; ETIMEDOUT after 127 s


class Handshake:
    """The attempts of one socket to reach `address:port`. `connected` gets None or an OSError."""

    def __init__(
        self,
        socket: TcpSocket,
        target: Kernel | None,
        owner: RunQueue,
        connected: asyncio.Future[None],
        context: Context,
    ) -> None:
        network, target_name = socket.kernel.network, target.name if target else socket.remote[0]
        self._socket = socket
        self._target = target
        self._owner = owner
        self._connected = connected
        self._context = context
        self._scheduler = owner.scheduler
        self._link = network.link(socket.kernel.name, target_name)
        self._back = network.link(target_name, socket.kernel.name)
        self._attempts = 0
        self._is_done = False

    def send_syn(self, _: object = None) -> None:
        """Send SYN, and repeat it until an answer comes."""
        if self._is_done or self._socket.is_gone:
            return
        if self._attempts > SYN_RETRIES_MAX:
            self._finish(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
            return
        now_ns = self._scheduler.local_ns()
        self._scheduler.at(now_ns + self._link.latency_ns(), self._syn_arrives)
        self._scheduler.later(now_ns + (SYN_TIMEOUT_NS << self._attempts), self.send_syn)
        self._attempts += 1

    def _syn_arrives(self, _: object) -> None:
        if self._socket.is_gone:
            return
        if self._target is None:
            self._link.count_loss()
            return
        if not self._link.lets_through():
            return
        listener = self._target.listener(self._socket.remote)
        if listener is None:
            self._answer(None)
        elif not listener.is_full:
            peer = self._target.new_socket(local=self._socket.remote, remote=self._socket.local)
            peer.listener = listener
            self._answer(peer)

    def _answer(self, peer: TcpSocket | None) -> None:
        """Send SYN-ACK from the new socket `peer`, or RST if there is none."""
        when_ns = self._scheduler.now_ns + self._back.latency_ns()
        self._scheduler.at(when_ns, self._answer_arrives, peer)

    def _answer_arrives(self, peer: TcpSocket | None) -> None:
        if not self._back.lets_through():
            is_useless = True
        else:
            is_useless = (
                self._is_done or self._socket.is_gone or (peer is not None and peer.is_gone)
            )
        if is_useless:
            if peer is not None:
                peer.vanish()
        elif peer is None:
            self._finish(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))
        else:
            self._connect(peer)

    def _connect(self, peer: TcpSocket) -> None:
        socket, scheduler = self._socket, self._scheduler
        trace, link, back = socket.kernel.network.trace, self._link, self._back
        socket.outbound = peer.inbound = Stream(scheduler, trace, socket, peer, link, back)
        socket.inbound = peer.outbound = Stream(scheduler, trace, peer, socket, back, link)
        socket.outbound.send(b"")
        self._finish(None)

    def _finish(self, error: OSError | None) -> None:
        self._is_done = True
        if error is not None:
            address, port = self._socket.remote
            error.strerror = f"{error.strerror}: {address}:{port}"
            self._socket.vanish()
        self._owner.enqueue(SimHandle(settle, (self._connected, None, error), self._context))
