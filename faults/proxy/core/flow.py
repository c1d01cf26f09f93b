"""One direction of one connection: decides which bytes pass, wait or are lost, and when. No sockets and no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Protocol

from staticfire.faults.proxy.core.counters import FlowCounters
from staticfire.faults.proxy.core.link_faults import NO_EFFECT, Effect, LinkFault
from staticfire.faults.proxy.rocketmq.frames import Piece

HELD_MAX = 4 << 20  # bytes; above this the sender's socket is not read
HELD_LOW = 1 << 20  # bytes; from here down the sender's socket is read again
TRICKLE_S = 0.02  # a limited flow passes the bytes of this much time at once


class End(StrEnum):
    """The way in which a stream ends."""

    CLOSED = "closed"  # FIN: the other direction stays open
    RESET = "reset"  # RST


class Sink(Protocol):
    """The destination of a flow."""

    @property
    def is_writable(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def end(self, end: End) -> None: ...


@dataclass(slots=True)
class Pipe:
    """The bandwidth that all connections of a limited link share, per direction."""

    free_at_s: float = 0.0


@dataclass(slots=True)
class _Item:
    piece: Piece
    end: End | None
    at_s: float  # when it was received
    jitter: float  # -1 to 1
    passed: int = 0  # bytes that were sent on
    is_frozen: bool = False  # was counted as frozen
    is_delayed: bool = False  # was counted as delayed
    is_limited: bool = False


_NOTHING = Piece(b"", is_frame=True)


class Flow:
    """A queue between two sockets. Times are seconds of the caller's clock.

    Args:
        counters: of the link and direction, shared by its connections.
        pipe: also shared by the connections of the link and direction.
        random: draws the jitter.
    """

    def __init__(self, counters: FlowCounters, pipe: Pipe, random: Random) -> None:
        self.counters = counters
        self.pipe = pipe
        self.effect = NO_EFFECT
        self.has_hole = False  # data was discarded, so the connection must not continue: TCP would never skip data
        self.ended = False
        self._random = random
        self._queue: deque[_Item] = deque()
        self._held = 0

    @property
    def held_size(self) -> int:
        """The number of queued bytes."""
        return self._held

    @property
    def is_full(self) -> bool:
        """Whether the sender should wait."""
        return self._held > HELD_MAX

    @property
    def has_room(self) -> bool:
        return self._held <= HELD_LOW

    def set_effect(self, effect: Effect) -> None:
        """Apply other faults from now on, also to queued data."""
        self.effect = effect
        if effect.freezes:
            for item in self._queue:
                self._freeze(item)

    def put(self, piece: Piece, now_s: float) -> None:
        """Queue a received piece."""
        self._add(_Item(piece, None, now_s, self._draw()))

    def put_end(self, end: End, now_s: float) -> None:
        """Queue the end of the stream; nothing follows."""
        self._add(_Item(_NOTHING, end, now_s, self._draw()))

    def _draw(self) -> float:
        return self._random.uniform(-1, 1) if self.effect.jitter_s else 0.0

    def _add(self, item: _Item) -> None:
        self._queue.append(item)
        self._held += len(item.piece.data)
        if self.effect.freezes:
            self._freeze(item)

    def discard(self) -> None:
        """Drop all queued data, because the receiver has gone."""
        self._queue.clear()
        self._held = 0

    def pump(self, now_s: float, sink: Sink) -> float | None:
        """Send on everything that may pass now.

        Returns the time of the next call. None: call again when data is put, the sink takes more, or the faults change.
        """
        while self._queue and sink.is_writable and not self.effect.freezes:
            item = self._queue[0]
            wait_until_s = self._due_s(item, now_s)
            if wait_until_s > now_s:
                return wait_until_s
            if self.effect.drops:
                self._drop(item)
            else:
                self._pass(item, self._portion(item, now_s), sink)
        return None

    def _due_s(self, item: _Item, now_s: float) -> float:
        """Return the time at which the next bytes of the item may pass."""
        effect = self.effect
        due_s = item.at_s + effect.delay_s + item.jitter * effect.jitter_s
        if due_s > now_s:
            self._delay(item)
            return due_s
        if effect.bytes_per_s and not effect.drops and self.pipe.free_at_s > now_s:
            item.is_limited = True
            return self.pipe.free_at_s
        return now_s

    def _portion(self, item: _Item, now_s: float) -> int:
        """Return how many bytes of the item may pass at once. They occupy a limited pipe for a while."""
        size = len(item.piece.data) - item.passed
        rate = self.effect.bytes_per_s
        if not rate:
            return size
        portion = min(size, max(1, int(rate * TRICKLE_S)))
        self.pipe.free_at_s = now_s + portion / rate
        if item.is_limited:
            self.counters.limited += portion
            _credit(self.effect.limits, portion)
        return portion

    def _pass(self, item: _Item, size: int, sink: Sink) -> None:
        data = item.piece.data[item.passed : item.passed + size]
        self._take(item, size)
        self.counters.passed += size
        if data:
            sink.write(data)
        if item.end is not None:
            self.ended = True
            sink.end(item.end)

    def _drop(self, item: _Item) -> None:
        self.has_hole = True
        size = len(item.piece.data) - item.passed
        self._take(item, size)
        self.counters.dropped += size
        _credit(self.effect.drops, size)

    def _take(self, item: _Item, size: int) -> None:
        item.passed += size
        self._held -= size
        if item.passed == len(item.piece.data):
            self._queue.popleft()

    def _delay(self, item: _Item) -> None:
        if not item.is_delayed:
            item.is_delayed = True
            size = len(item.piece.data) - item.passed
            self.counters.delayed += size
            _credit(self.effect.delays, size)

    def _freeze(self, item: _Item) -> None:
        if not item.is_frozen:
            item.is_frozen = True
            size = len(item.piece.data) - item.passed
            self.counters.frozen += size
            _credit(self.effect.freezes, size)


def _credit(faults: Iterable[LinkFault], size: int) -> None:
    for fault in faults:
        fault.count(size)
