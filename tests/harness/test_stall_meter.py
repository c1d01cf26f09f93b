"""Read stalls of the harness: kept for a second, and a stall in progress counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.stall_meter import StallMeter

MS = 1_000_000


class Harness:
    """A loop on virtual time, and a clock that may go on while the loop stands still."""

    def __init__(self) -> None:
        self.stalled_ns = 0
        self.meter = StallMeter(self.now_ns)

    def now_ns(self) -> int:
        return round(asyncio.get_running_loop().time() * 1e9) + self.stalled_ns

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            self.meter.start()
            await story()
            self.meter.stop()

        World(1).run(main)


def roughly(late_ns: int) -> int:
    return round(late_ns / MS)


def test_a_loop_that_keeps_up_is_hardly_late() -> None:
    harness = Harness()

    async def story() -> None:
        await asyncio.sleep(0.5)
        assert roughly(harness.meter.late_ns()) <= 2  # simulated timers are late, too

    harness.play(story)


def test_a_stall_counts_while_it_goes_on_and_for_a_second() -> None:
    harness = Harness()

    async def story() -> None:
        await asyncio.sleep(0.005)
        harness.stalled_ns += 40 * MS  # a computation, and then an event is read
        assert 30 <= roughly(harness.meter.late_ns()) <= 40
        await asyncio.sleep(0.1)
        assert 30 <= roughly(harness.meter.late_ns()) <= 42
        harness.stalled_ns += 20 * MS
        await asyncio.sleep(0.1)
        assert 30 <= roughly(harness.meter.late_ns()) <= 42  # the longer one
        await asyncio.sleep(0.85)
        assert 10 <= roughly(harness.meter.late_ns()) <= 22
        await asyncio.sleep(0.5)
        assert roughly(harness.meter.late_ns()) <= 2

    harness.play(story)


def test_nothing_is_late_before_the_start() -> None:
    assert StallMeter(lambda: 5).late_ns() == 0
