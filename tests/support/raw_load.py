"""A load that costs a node's peer as little as possible: prepared frames over one blocking socket, N in flight.

Only the opaque of a frame is patched and only opaque and code of an answer are looked at, so that the load is not what
is measured.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from dataclasses import dataclass
from statistics import quantiles

from staticfire.system_under_test.protocol.command import RemotingCommand

_LENGTH = struct.Struct(">i")
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_FIRST_OPAQUE = 10_000_000  # eight digits for all: a frame keeps its length


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What a load has seen."""

    answers: int
    seconds: float
    latencies_s: list[float]
    codes: dict[bytes, int]

    @property
    def rate(self) -> float:
        return self.answers / self.seconds

    def percentile_ms(self, percent: int) -> float:
        return quantiles(self.latencies_s, n=100)[percent - 1] * 1000


class Frame:
    """A prepared request. `patch` gives it another opaque."""

    def __init__(self, command: RemotingCommand) -> None:
        command.opaque = _FIRST_OPAQUE
        self._head, self._tail = command.encode().split(b"%d" % _FIRST_OPAQUE, 1)

    def patch(self, opaque: int) -> bytes:
        return b"%b%d%b" % (self._head, opaque, self._tail)


def run_load(
    address: tuple[str, int], frames: list[Frame], *, in_flight: int, seconds: float
) -> LoadResult:
    """Keep `in_flight` requests unanswered for `seconds`, frames in turn, then wait for the rest."""
    with socket.create_connection(address) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.settimeout(30.0)
        return _Load(peer, frames).run(in_flight, seconds)


class _Load:
    def __init__(self, peer: socket.socket, frames: list[Frame]) -> None:
        self._peer = peer
        self._frames = frames
        self._sent = 0
        self._sent_at: list[float] = []
        self._buffer = b""
        self._codes: dict[bytes, int] = {}
        self._latencies: list[float] = []

    def run(self, in_flight: int, seconds: float) -> LoadResult:
        start = time.perf_counter()
        end = start + seconds
        self._send(in_flight)
        waiting = in_flight
        while waiting:
            answers = self._receive()
            waiting -= answers
            if time.perf_counter() < end:
                self._send(answers)
                waiting += answers
        return LoadResult(
            answers=len(self._latencies),
            seconds=time.perf_counter() - start,
            latencies_s=self._latencies,
            codes=self._codes,
        )

    def _send(self, count: int) -> None:
        frames, first = self._frames, self._sent
        parts = [
            frames[n % len(frames)].patch(_FIRST_OPAQUE + n) for n in range(first, first + count)
        ]
        self._sent += count
        self._sent_at += [time.perf_counter()] * count
        self._peer.sendall(b"".join(parts))

    def _receive(self) -> int:
        """Wait for answers; return how many came."""
        data = self._peer.recv(1 << 20)
        if not data:
            raise ConnectionError("the node has closed the connection")
        now = time.perf_counter()
        buffer = self._buffer + data if self._buffer else data
        position = count = 0
        while len(buffer) - position >= 4:
            end = position + 4 + _LENGTH.unpack_from(buffer, position)[0]
            if end > len(buffer):
                break
            self._count(buffer, position, now)
            position = end
            count += 1
        self._buffer = buffer[position:]
        return count

    def _count(self, buffer: bytes, position: int, now: float) -> None:
        found = _OPAQUE.search(buffer, position)
        assert found is not None
        self._latencies.append(now - self._sent_at[int(found[1]) - _FIRST_OPAQUE])
        at = buffer.index(b'"code":', position) + 7
        code = buffer[at : at + 2].rstrip(b",}")
        self._codes[code] = self._codes.get(code, 0) + 1
