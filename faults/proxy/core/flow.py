"""One direction of one connection: what it holds back, lets pass or loses, and when. No sockets and no clock."""

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

HELD_MAX = 4 << 20  # bytes; more are left to the sender's socket
HELD_LOW = 1 << 20  # bytes; from here on the sender is read again
TRICKLE_S = 0.02  # a limit lets bytes pass in portions of this time


class End(StrEnum):
    """How a stream ends."""

    CLOSED = "closed"  # FIN: the other direction may go on
    RESET = "reset"  # RST


class Sink(Protocol):
    """Where a flow leads to."""

    @property
    def is_writable(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def end(self, end: End) -> None: ...


@dataclass(slots=True)
class Pipe:
    """The narrow place that all connections of a link share while it is limited."""

    free_at_s: float = 0.0


@dataclass(slots=True)
class _Item:
    piece: Piece
    end: End | None
    at_s: float  # when it came
    jitter: float  # -1 to 1
    passed: int = 0  # bytes of it that are through
    is_frozen: bool = False  # had to wait because of a freeze
    is_delayed: bool = False  # or because of a delay
    is_limited: bool = False


_NOTHING = Piece(b"", is_frame=True)


class Flow:
    """A queue between two sockets.

    Args:
        counters: of the link and direction, shared by its connections.
        pipe: likewise.
    """

    def __init__(self, counters: FlowCounters, pipe: Pipe, random: Random) -> None:
        self.counters = counters
        self.pipe = pipe
        self.effect = NO_EFFECT
        self.has_hole = False  # something vanished: TCP would not go on as if nothing was
        self.ended = False
        self._random = random
        self._queue: deque[_Item] = deque()
        self._held = 0

    @property
    def held_size(self) -> int:
        """Bytes that came and did not go on yet."""
        return self._held

    @property
    def is_full(self) -> bool:
        """Whether the sender should wait."""
        return self._held > HELD_MAX

    @property
    def has_room(self) -> bool:
        return self._held <= HELD_LOW

    def set_effect(self, effect: Effect) -> None:
        """Other faults from now on; what waits is treated by them, too."""
        self.effect = effect
        if effect.freezes:
            for item in self._queue:
                self._freeze(item)

    def put(self, piece: Piece, now_s: float) -> None:
        """Something came."""
        self._add(_Item(piece, None, now_s, self._draw()))

    def put_end(self, end: End, now_s: float) -> None:
        """The stream ends; nothing follows."""
        self._add(_Item(_NOTHING, end, now_s, self._draw()))

    def _draw(self) -> float:
        return self._random.uniform(-1, 1) if self.effect.jitter_s else 0.0

    def _add(self, item: _Item) -> None:
        self._queue.append(item)
        self._held += len(item.piece.data)
        if self.effect.freezes:
            self._freeze(item)

    def discard(self) -> None:
        """Drop what is queued: its receiver has gone."""
        self._queue.clear()
        self._held = 0

    def pump(self, now_s: float, sink: Sink) -> float | None:
        """Let pass what may.

        Returns when to call it again; None: when something comes, the sink takes more or the faults are others.
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
        """When the next bytes of it may go on."""
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
        """How many bytes of it may pass at once; a limited pipe is busy with them for a while."""
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
