"""The kernel's side of one end of a TCP connection."""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING, Protocol

from staticfire.harness.simulation.network.stream import Segment, Stream

if TYPE_CHECKING:
    from staticfire.harness.simulation.network.kernel import Kernel, Listener

Address = tuple[str, int]

SHORT_READ_SHARE = 1 / 16


class SocketUser(Protocol):
    """The process's side of a socket."""

    def readable(self) -> None:
        """Called when there is something to read: bytes, the end, or an error."""
        ...

    def writable(self) -> None:
        """Called when there may be room in the window again."""
        ...

    def detach(self) -> None:
        """Called when the process is gone: ignore all later calls."""
        ...


class TcpSocket:
    """One end of a connection. It belongs to the kernel of a host, and may outlive its process.

    `is_gone` means that the kernel does not know the socket: it answers an arriving segment with RST.
    """

    __slots__ = (
        "_is_fin_delivered",
        "_is_fin_sent",
        "buffer",
        "error",
        "inbound",
        "is_closed",
        "is_ended",
        "is_gone",
        "is_waiting",
        "kernel",
        "listener",
        "local",
        "number",
        "outbound",
        "power_lost_ns",
        "remote",
        "user",
    )

    def __init__(self, kernel: Kernel, number: int, local: Address, remote: Address) -> None:
        self.kernel = kernel
        self.number = number
        self.local = local
        self.remote = remote
        self.outbound: Stream | None = None
        self.inbound: Stream | None = None
        self.buffer: deque[bytes] = deque()  # received and not yet read by the process
        self.error: OSError | None = None
        self.user: SocketUser | None = None
        self.listener: Listener | None = None  # until it waits in the backlog
        self.is_closed = False  # by the process
        self.is_gone = False
        self.power_lost_ns: int | None = None  # when its machine lost power
        self.is_ended = False  # the other side's FIN has arrived
        self.is_waiting = False  # the process has bytes that do not fit into the window
        self._is_fin_sent = False
        self._is_fin_delivered = False

    # --- for the process ----------------------------------------------------------------------------

    def take(self) -> bytes:
        """Read arrived bytes. As on a real socket, a read may return fewer bytes than have arrived."""
        buffer = self.buffer
        if len(buffer) == 1:
            data = buffer.popleft()
        else:
            data = b"".join(buffer)
            buffer.clear()
        random = self.kernel.random
        if random() < SHORT_READ_SHARE and len(data) > 1:
            cut = 1 + int(random() * (len(data) - 1))
            buffer.appendleft(data[cut:])
            data = data[:cut]
        assert self.inbound is not None
        self.inbound.count_read(len(data))
        return data

    def shut_down(self) -> None:
        """Send FIN; reading continues."""
        if not self._is_fin_sent and not self.is_gone and self.outbound is not None:
            self._is_fin_sent = True
            self.outbound.send(None)

    def close(self) -> None:
        """Close the socket: the kernel sends FIN after the written bytes, or RST if bytes were not read."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.is_gone or self.outbound is None:
            self.vanish()
        elif self.buffer:
            self.outbound.reset_target()
            self.vanish()
        else:
            self.shut_down()
            self._forget_if_done()

    # --- for the network ----------------------------------------------------------------------------

    def receive(self, segment: Segment, stream: Stream) -> bool:
        """Take a segment that arrived; return False if the answer is RST."""
        if self.is_gone or (self.is_closed and segment):
            self.vanish()
            stream.reset_source()
            return False
        if self.listener is not None:
            listener, self.listener = self.listener, None
            if not listener.add(self):
                self.vanish()
                stream.reset_source()
                return False
        if segment:
            self.buffer.append(segment)
        elif segment is None:
            self.is_ended = True
            stream.acknowledge_end()
            self._forget_if_done()
        else:
            return True
        if self.user is not None:
            self.user.readable()
        return True

    def fin_delivered(self) -> None:
        self._is_fin_delivered = True
        self._forget_if_done()

    def reset(self) -> None:
        """Handle a RST. After a FIN it is a broken pipe (Linux: tcp_reset)."""
        if self.is_ended and not self._is_fin_sent:
            self.fail(BrokenPipeError(errno.EPIPE, "Broken pipe"))
        else:
            self.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def fail(self, error: OSError) -> None:
        """End the connection with `error`. The process can still read arrived bytes."""
        if self.is_gone:
            return
        self.error = error
        self.vanish()
        if self.user is not None:
            self.user.readable()
            self.user.writable()

    def window_opened(self) -> None:
        if self.is_waiting and self.user is not None:
            self.user.writable()

    def vanish(self) -> None:
        """Remove the socket from the kernel and send nothing."""
        self.is_gone = True
        self._forget()

    def _forget_if_done(self) -> None:
        if self.is_closed and self.is_ended and self._is_fin_delivered:
            self._forget()

    def _forget(self) -> None:
        self.kernel.forget(self)
        if self.is_closed:  # no reads or writes follow; streams refer back to this socket
            self.inbound = self.outbound = None
