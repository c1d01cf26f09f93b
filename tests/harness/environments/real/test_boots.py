"""Servers that boot: the time by which the plan is postponed, for any number of concurrent boots."""

from __future__ import annotations

import asyncio

from staticfire.harness.environments.real.boots import BOOT_BOUND_S, Boots
from staticfire.harness.simulation.hosts.world import World

NS = 1_000_000_000


def waited_s(*boots: tuple[float, float, float], until_s: float) -> list[int]:
    """What is put off at the end of each second; a boot is when it begins, answers, and its process ends."""
    world = World(1)
    found = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        watch = Boots(lambda: world.now_ns)

        def begin(answers_s: float, ends_s: float) -> None:
            async def answers() -> bool:
                return loop.time() >= answers_s

            watch.begin(lambda: loop.time() < ends_s, answers)

        for begins_s, answers_s, ends_s in boots:
            loop.call_at(begins_s, begin, answers_s, ends_s)
        while loop.time() < until_s:
            await asyncio.sleep(1.0)
            found.append(round(watch.waited_ns() / NS))
        watch.stop()

    world.run(main)
    return found


def test_boots_at_a_time_count_once() -> None:
    assert waited_s((1.1, 3.0, 99.0), (2.1, 5.0, 99.0), until_s=7.0) == [0, 1, 2, 3, 4, 4, 4]


def test_boots_one_after_the_other_add_up() -> None:
    assert waited_s((0.1, 2.0, 99.0), (4.1, 6.0, 99.0), until_s=8.0)[-1] == 4


def test_a_server_that_ends_boots_no_more() -> None:
    assert waited_s((0.1, 99.0, 3.0), until_s=8.0)[-1] == 3


def test_a_server_that_never_answers_is_waited_for_within_a_bound() -> None:
    assert waited_s((0.1, 999.0, 999.0), until_s=90.0)[-1] == BOOT_BOUND_S
