"""One direction of a connection under each fault, on a clock that the test moves."""

from __future__ import annotations

from dataclasses import asdict
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.faults.proxy.core.counters import FlowCounters
from staticfire.faults.proxy.core.flow import HELD_MAX, TRICKLE_S, End, Flow, Pipe
from staticfire.faults.proxy.core.link_faults import Direction, LinkFault, LinkFaultKind, effect_of
from staticfire.faults.proxy.rocketmq.frames import Piece


class Bench:
    """A flow, its sink and its clock. `got` is what arrived: (time, bytes or end)."""

    def __init__(self) -> None:
        self.flow = Flow(FlowCounters(), Pipe(), Random(0))
        self.is_writable = True
        self.got: list[tuple[float, bytes | End]] = []
        self.now_s = 0.0
        self._wake_s: float | None = None
        self.faults: list[LinkFault] = []

    def write(self, data: bytes) -> None:
        self.got.append((round(self.now_s, 6), data))

    def end(self, end: End) -> None:
        self.got.append((round(self.now_s, 6), end))

    def inject(self, kind: str, **values: Any) -> LinkFault:
        fault = LinkFault(number=1, kind=LinkFaultKind(kind), **values)
        self.faults.append(fault)
        self._apply()
        return fault

    def heal(self) -> None:
        self.faults.clear()
        self._apply()

    def _apply(self) -> None:
        self.flow.set_effect(effect_of(self.faults, Direction.UP))
        self.pump()

    def put(self, data: bytes) -> None:
        self.flow.put(Piece(data, is_frame=True), self.now_s)
        self.pump()

    def put_end(self, end: End) -> None:
        self.flow.put_end(end, self.now_s)
        self.pump()

    def pump(self) -> None:
        self._wake_s = self.flow.pump(self.now_s, self)

    def run(self, until_s: float) -> None:
        """Move the clock, and wake the flow whenever it asked for it."""
        while self._wake_s is not None and self._wake_s <= until_s:
            assert self._wake_s > self.now_s, "a flow that waits for the past never ends"
            self.now_s = self._wake_s
            self.pump()
        self.now_s = until_s

    @property
    def counts(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self.flow.counters).items() if value}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_without_faults_everything_passes_at_once(bench: Bench) -> None:
    bench.put(b"a")
    bench.put_end(End.CLOSED)
    assert bench.got == [(0, b"a"), (0, End.CLOSED)]
    assert bench.flow.ended
    assert bench.counts == {"passed": 1}


def test_a_delay(bench: Bench) -> None:
    fault = bench.inject("delay", delay_ms=100)
    bench.put(b"aa")
    bench.run(0.04)
    bench.put(b"b")
    bench.put_end(End.RESET)
    bench.run(1)
    assert bench.got == [(0.1, b"aa"), (0.14, b"b"), (0.14, End.RESET)]
    assert bench.counts == {"passed": 3, "delayed": 3}
    assert (fault.bytes, fault.bitten) == (3, True)


def test_an_ended_delay_lets_everything_go(bench: Bench) -> None:
    bench.inject("delay", delay_ms=100)
    bench.put(b"a")
    bench.run(0.01)
    bench.heal()
    assert bench.got == [(0.01, b"a")]


@given(st.integers(0, 2**32))
def test_jitter_keeps_the_order(seed: int) -> None:
    bench = Bench()
    bench.flow = Flow(FlowCounters(), Pipe(), Random(seed))
    bench.inject("delay", delay_ms=10, jitter_ms=10)
    for number in range(10):
        bench.run(number / 1000)
        bench.put(bytes([number]))
    bench.run(1)
    assert [data for _, data in bench.got] == [bytes([number]) for number in range(10)]
    for (at_s, _), number in zip(bench.got, range(10), strict=True):
        assert number / 1000 <= at_s <= number / 1000 + 0.02 or at_s <= 0.009 + 0.02


def test_a_limit_trickles(bench: Bench) -> None:
    fault = bench.inject("limit", bytes_per_s=1000)
    bench.put(b"x" * 50)
    bench.put(b"y" * 5)
    bench.run(10)
    portion = int(1000 * TRICKLE_S)
    assert bench.got == [(0, b"x" * 20), (0.02, b"x" * 20), (0.04, b"x" * 10), (0.05, b"y" * 5)]
    assert bench.counts == {"passed": 55, "limited": 55 - portion}  # the first ones did not wait
    assert fault.bytes == 55 - portion


def test_a_limit_is_shared_by_the_connections_of_a_link(bench: Bench) -> None:
    other = Bench()
    other.flow.pipe = bench.flow.pipe
    for one in (bench, other):
        one.inject("limit", bytes_per_s=10)
        one.put(b"x")
    assert (len(bench.got), len(other.got)) == (1, 0)
    other.run(0.1)
    assert other.got == [(0.1, b"x")]


@pytest.mark.parametrize("end", [End.CLOSED, End.RESET])
def test_what_is_dropped_vanishes_its_end_too(bench: Bench, end: End) -> None:
    fault = bench.inject("drop")
    bench.put(b"lost")
    bench.put_end(end)
    bench.heal()
    assert bench.got == []
    assert bench.counts == {"dropped": 4}
    assert fault.bytes == 4
    assert (bench.flow.has_hole, bench.flow.ended) == (True, False)


def test_a_drop_that_met_nothing_leaves_no_hole(bench: Bench) -> None:
    fault = bench.inject("drop")
    bench.heal()
    bench.put(b"kept")
    assert bench.got == [(0, b"kept")]
    assert (fault.bitten, bench.flow.has_hole) == (False, False)


def test_a_drop_strikes_what_is_under_way(bench: Bench) -> None:
    bench.inject("delay", delay_ms=100)
    bench.put(b"a")
    bench.inject("drop")
    bench.run(1)
    assert bench.got == []
    assert bench.counts == {"delayed": 1, "dropped": 1}


def test_dropping_is_not_limited(bench: Bench) -> None:
    bench.inject("limit", bytes_per_s=10)
    bench.put(b"abc")
    bench.inject("drop")
    assert bench.counts == {"passed": 1, "dropped": 2}


def test_a_freeze_loses_nothing(bench: Bench) -> None:
    bench.inject("delay", delay_ms=100)
    bench.put(b"a")
    fault = bench.inject("freeze")
    bench.put(b"bb")
    bench.put_end(End.CLOSED)
    bench.run(5)
    assert bench.got == []
    assert bench.flow.held_size == 3
    assert fault.bytes == 3
    bench.heal()
    assert bench.got == [(5, b"a"), (5, b"bb"), (5, End.CLOSED)]
    assert bench.counts == {"passed": 3, "frozen": 3, "delayed": 1}


def test_bytes_are_frozen_once_however_often_the_faults_change(bench: Bench) -> None:
    bench.put(b"before")
    first = bench.inject("freeze")
    bench.put(b"a")
    second = bench.inject("freeze")
    assert (first.bytes, second.bytes, bench.counts["frozen"]) == (1, 0, 1)


def test_a_sink_that_takes_no_more_is_waited_for(bench: Bench) -> None:
    bench.is_writable = False
    bench.put(b"x" * HELD_MAX)
    assert not bench.flow.is_full
    bench.put(b"x")
    assert bench.flow.is_full
    bench.is_writable = True
    bench.pump()
    assert bench.flow.has_room
    assert bench.counts == {"passed": HELD_MAX + 1}


def test_discarded_bytes_are_not_sent_after_a_heal(bench: Bench) -> None:
    bench.inject("freeze")
    bench.put(b"x")
    bench.flow.discard()
    assert bench.flow.held_size == 0
    bench.heal()
    assert bench.got == []
