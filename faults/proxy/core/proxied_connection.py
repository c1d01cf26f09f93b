"""A connection of a client, and the connection to a server to which the proxy connects it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Protocol

from staticfire.faults.proxy.core.counters import FlowCounters
from staticfire.faults.proxy.core.flow import End, Flow, Pipe
from staticfire.faults.proxy.core.frontends import Listener
from staticfire.faults.proxy.core.link_faults import Direction, Effect, LinkFault, effect_of
from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.faults.proxy.core.socket_end import SocketEnd
from staticfire.faults.proxy.rocketmq.addresses import Address
from staticfire.faults.proxy.rocketmq.frames import FrameSplitter, Piece, StreamKind
from staticfire.faults.proxy.rocketmq.identity import ClientIdentity
from staticfire.faults.proxy.rocketmq.rewriting import BrokerRewriter, NameServerRewriter, Rewriter
from staticfire.faults.proxy.rocketmq.translator import Translator


class ConnectionOwner(Protocol):
    """The interface through which a proxied connection uses the proxy."""

    random: Random
    passes_tls: bool

    def translator(self, listener: Listener, host: str) -> Translator: ...

    def faults_for(self, proxied: ProxiedConnection) -> tuple[LinkFault, ...]: ...

    def pipe(self, proxied: ProxiedConnection, direction: Direction) -> Pipe: ...

    def opened(self, proxied: ProxiedConnection) -> None: ...

    def closed(self, proxied: ProxiedConnection) -> None: ...

    def event(self, text: str) -> None: ...


class _Way:
    """One direction of a proxied connection: source, queue, destination."""

    def __init__(
        self, source: SocketEnd, sink: SocketEnd, flow: Flow, splitter: FrameSplitter
    ) -> None:
        self.source = source
        self.sink = sink
        self.flow = flow
        self.splitter = splitter
        self.timer: asyncio.TimerHandle | None = None


class ProxiedConnection:
    """Connects one client to one server, under the faults of their link."""

    def __init__(self, listener: Listener, owner: ConnectionOwner) -> None:
        self.listener = listener
        self.client_end = SocketEnd(self)
        self.client = Address("", 0)
        self.identity = ClientIdentity(self._client_learned)
        self.counters = {Direction.UP: FlowCounters(), Direction.DOWN: FlowCounters()}
        self.was_cut = False
        self.was_torn = False  # reset because a drop had discarded some of its data
        self._owner = owner
        self._server_end = SocketEnd(self)
        self._loop = asyncio.get_running_loop()
        self._rewriter: Rewriter | None = None
        self._ways: dict[Direction, _Way] = {}
        self._connecting: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def client_names(self) -> tuple[str, ...]:
        """The names by which a fault may select the client."""
        names = (
            self.listener.frontend.name,
            *self.identity.names,
            self.client.host,
            str(self.client),
        )
        return tuple(name for name in names if name)

    @property
    def label(self) -> str:
        """The name under which the client is shown."""
        return self.client_names[0]

    @property
    def held_size(self) -> int:
        """The number of bytes that the connection holds now."""
        return sum(way.flow.held_size + way.splitter.held_size for way in self._ways.values())

    @property
    def is_closed(self) -> bool:
        never_connected = self._is_stopped and not self._server_end.was_made
        return self.client_end.is_lost and (self._server_end.is_lost or never_connected)

    # Life

    def made(self, end: SocketEnd) -> None:
        if self._is_stopped:
            end.reset()
        elif end is self.client_end:
            self._accepted()
        else:
            self.pump()

    def _accepted(self) -> None:
        self.client = self.client_end.address("peername")
        self._owner.opened(self)
        faults = self._owner.faults_for(self)
        self._make_rewriter()
        self._make_ways()
        self.apply(faults)
        if self._is_stopped:  # a fault has cut it
            return
        _count(self._blocking(faults))
        self._connecting = self._loop.create_task(self._connect())

    def _blocking(self, faults: Iterable[LinkFault]) -> list[LinkFault]:
        """Return the faults that give a new connection no service."""
        effects = [effect_of(faults, direction) for direction in self._ways]
        return list(dict.fromkeys(fault for e in effects for fault in (*e.drops, *e.freezes)))

    def _make_rewriter(self) -> None:
        host = self.client_end.address("sockname").host
        translator = self._owner.translator(self.listener, host)
        match self.listener.server.kind:
            case ServerKind.NAME_SERVER:
                self._rewriter = NameServerRewriter(translator, self.identity)
            case ServerKind.BROKER:
                self._rewriter = BrokerRewriter(translator, self.identity)
            case ServerKind.HA:
                pass

    def _make_ways(self) -> None:
        ends = {Direction.UP: (self.client_end, self._server_end)}
        ends[Direction.DOWN] = (self._server_end, self.client_end)
        for direction, (source, sink) in ends.items():
            pipe = self._owner.pipe(self, direction)
            flow = Flow(self.counters[direction], pipe, self._owner.random)
            self._ways[direction] = _Way(
                source, sink, flow, FrameSplitter(is_raw=self._rewriter is None)
            )

    async def _connect(self) -> None:
        target = self.listener.target
        try:
            await self._loop.create_connection(lambda: self._server_end, *target)
        except (OSError, OverflowError, UnicodeError):  # an invalid port or host name
            self._server_end.connection_lost(None)

    def stop(self) -> None:
        """Reset both connections, regardless of faults."""
        self._is_stopped = True
        if self._connecting is not None:
            self._connecting.cancel()
        self.client_end.reset()
        self._server_end.reset()

    def _cut(self, effect: Effect) -> None:
        self.was_cut = True
        _count(effect.cuts)
        self.stop()

    def _client_learned(self) -> None:
        """Apply other faults and another pipe, since the client has a new name."""
        for direction, way in self._ways.items():
            way.flow.pipe = self._owner.pipe(self, direction)
        self.apply(self._owner.faults_for(self))

    # Faults

    def apply(self, faults: Iterable[LinkFault]) -> None:
        """Apply exactly these faults from now on."""
        if self._is_stopped:
            return
        for direction, way in self._ways.items():
            effect = effect_of(faults, direction)
            if effect.cuts:
                self._cut(effect)
                return
            way.flow.set_effect(effect)
            if way.flow.has_hole and not effect.drops:
                self.was_torn = True
                self.stop()
                return
        self.pump()

    # Bytes

    def received(self, end: SocketEnd, data: bytes) -> None:
        way = self._way_from(end)
        kind_before = way.splitter.kind
        pieces = way.splitter.feed(data)
        is_tls = way.splitter.kind is StreamKind.TLS
        if is_tls and kind_before is StreamKind.UNKNOWN and self._refuses_tls(way):
            return
        for piece in pieces:
            way.flow.put(self._rewritten(way, piece), self._loop.time())
        self._pump(way)

    def _rewritten(self, way: _Way, piece: Piece) -> Piece:
        if not piece.is_frame or self._rewriter is None:
            return piece
        rewrite = self._rewriter.up if way.source is self.client_end else self._rewriter.down
        return Piece(rewrite(piece.data), is_frame=True)

    def _refuses_tls(self, way: _Way) -> bool:
        """Refuse a client that speaks TLS to a name server; return whether it was refused.

        The proxy cannot rewrite routes inside TLS, so the client would bypass all faults of brokers.
        """
        server = self.listener.server
        if way.source is not self.client_end:
            return False
        if server.kind is not ServerKind.NAME_SERVER or self._owner.passes_tls:
            self._owner.event(
                f"{self.client} speaks TLS to {server.name}: it passes, but addresses inside are not rewritten"
            )
            return False
        self._owner.event(
            f"{self.client} speaks TLS to {server.name} and was turned away: routes inside TLS cannot be rewritten;"
            " switch TLS off in this client"
        )
        self.stop()
        return True

    def ended(self, end: SocketEnd) -> None:
        way = self._way_from(end)
        self._put_end(way, End.CLOSED)
        self._pump(way)
        self._close_if_done()

    def lost(self, end: SocketEnd) -> None:
        if self._ways:
            way = self._way_from(end)
            self._put_end(way, End.RESET)
            self.pump()
            self._close_if_done()
        if self.is_closed:
            self._forget()

    def _put_end(self, way: _Way, end: End) -> None:
        now_s = self._loop.time()
        for piece in way.splitter.end():
            way.flow.put(piece, now_s)
        way.flow.put_end(end, now_s)

    def _close_if_done(self) -> None:
        if all(way.flow.ended for way in self._ways.values()):
            self.client_end.close()
            self._server_end.close()

    def _forget(self) -> None:
        for way in self._ways.values():
            if way.timer is not None:
                way.timer.cancel()
        self._owner.closed(self)

    def _way_from(self, source: SocketEnd) -> _Way:
        return self._ways[Direction.UP if source is self.client_end else Direction.DOWN]

    def pump(self) -> None:
        """Send on everything that may pass now, in both directions."""
        for way in self._ways.values():
            self._pump(way)

    def _pump(self, way: _Way) -> None:
        flow = way.flow
        if way.timer is not None:
            way.timer.cancel()
            way.timer = None
        if way.sink.is_lost:
            flow.discard()
        at_s = flow.pump(self._loop.time(), way.sink)
        if at_s is not None:
            way.timer = self._loop.call_at(at_s, self._pump_later, way)
        if flow.is_full or not (way.sink.is_writable or way.sink.is_lost):
            way.source.set_reading(False)
        elif flow.has_room:
            way.source.set_reading(True)

    def _pump_later(self, way: _Way) -> None:
        way.timer = None
        self._pump(way)
        self._close_if_done()


def _count(faults: Iterable[LinkFault]) -> None:
    for fault in faults:
        fault.connections += 1
