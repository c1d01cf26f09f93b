"""The two ends of an HA connection, which carry the bytes of `store/replication/replication.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from staticfire.system_under_test.runtime.env import Log
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.replication.replica_receiver import Diverged, Reconnect
from staticfire.system_under_test.store.replication.replication import (
    ReplicaSender,
    ReplicationError,
)

WRITE_BUFFER_SIZE_MAX = 256 << 10  # bytes in the write buffer of one replica's connection


class Reader(Protocol):
    """The interface of HaFollower that a link needs."""

    log: Log
    now_ns: Callable[[], int]


class Owner(Reader, Protocol):
    """The interface of HaService that a sender connection needs."""

    def sender_opened(self, connection: HaSenderConnection) -> None: ...
    def sender_asked(self, connection: HaSenderConnection) -> None: ...
    def sender_advanced(self, sender: ReplicaSender) -> None: ...
    def sender_closed(self, connection: HaSenderConnection) -> None: ...


class HaSenderConnection(asyncio.Protocol):
    """The connection of one replica that reads our log."""

    def __init__(self, service: Owner, sender: ReplicaSender) -> None:
        self._service = service
        self.sender = sender
        self.reported_at_ns = 0
        self.wrote = False  # bytes since the last heartbeat tick
        self.peer_host = ""
        self._paused = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer_host = str(peer[0]) if peer else ""  # None: the peer is gone already
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_SIZE_MAX)
        self.reported_at_ns = self._service.now_ns()
        self._service.sender_opened(self)

    def data_received(self, data: bytes) -> None:
        self.reported_at_ns = self._service.now_ns()
        has_asked = self.sender.requested_offset is not None
        try:
            advanced = self.sender.receive(data)
        except ReplicationError as error:
            self._service.log.warning("replica was refused", error=str(error))
            self.abort()
            return
        if not has_asked and self.sender.requested_offset is not None:
            self._service.sender_asked(self)
        self.pump()
        if advanced:
            self._service.sender_advanced(self.sender)

    def pump(self) -> None:
        """Write what the replica lacks, as much as the connection accepts."""
        assert self._transport is not None
        while not self._paused and (transfer := self.sender.next_transfer()):
            self._transport.write(transfer)
            self.wrote = True

    def tick(self) -> None:
        """Send a heartbeat if nothing was written since the last tick."""
        assert self._transport is not None
        if not self.wrote and not self._paused:
            self._transport.write(self.sender.heartbeat())
        self.wrote = False

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.pump()

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._paused = True
        self._service.sender_closed(self)


class Receiver(Protocol):
    """The interface of ReplicaReceiver and CatchUpReceiver that a link needs."""

    def connected(self) -> bytes: ...
    def receive(self, data: bytes) -> None: ...


class HaLink(asyncio.Protocol):
    """Our connection to a sender; `receiver` interprets its bytes.

    `ended` gets the reason: an error, or None if the connection was closed."""

    def __init__(
        self,
        service: Reader,
        receiver: Receiver,
        *,
        after_receive: Callable[[HaLink], None],
        speaks_first: bool,
    ) -> None:
        self._service = service
        self.receiver = receiver
        self._after_receive = after_receive
        self._speaks_first = speaks_first  # if False, the first report waits for the next heartbeat
        self._first_report = b""  # until it is written
        self._transport: asyncio.Transport | None = None
        self._reason: Exception | None = None
        self.received_at_ns = service.now_ns()
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._first_report = self.receiver.connected()
        if self._speaks_first:
            self.say_first()

    def data_received(self, data: bytes) -> None:
        self.received_at_ns = self._service.now_ns()
        try:
            self.receiver.receive(data)
        except (Reconnect, Diverged, ReplicationError) as reason:
            self.end(reason)
        except (
            OSError,
            StoreError,
        ) as error:  # a full disk, a failed one, or invalid records
            self._service.log.warning("replicated bytes were not stored", error=str(error))
            self.end(error)
        self._after_receive(self)

    def say_first(self) -> bool:
        """Write the first report, which has waited for the heartbeat; False if it was written before."""
        report, self._first_report = self._first_report, b""
        self.write(report)
        return bool(report)

    def write(self, data: bytes) -> None:
        if data and self._reason is None and self._transport is not None:
            self._transport.write(data)

    def end(self, reason: Exception | None) -> None:
        """Close the connection; the first reason counts."""
        if self._reason is None:
            self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(self._reason or exc)
