from __future__ import annotations

import asyncio

from staticfire.system_under_test.client.periodic_task import PeriodicTask
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s
from tests.system_under_test.remoting.manual_loop import MemoryLog


class Job:
    def __init__(self, lasts_s: float = 0.0) -> None:
        self.at_s: list[float] = []
        self.log = MemoryLog()
        self._lasts_s = lasts_s
        self.task = PeriodicTask(self.log, "job", self._run, lambda: 10.0)

    async def _run(self) -> None:
        self.at_s.append(now_s())
        await asyncio.sleep(self._lasts_s)
        if len(self.at_s) == 1:
            raise RuntimeError("the first round fails")


@in_virtual_time
async def test_a_round_that_fails_is_logged_and_the_next_one_comes() -> None:
    job = Job()
    job.task.start()
    await asyncio.sleep(25.0)
    assert job.at_s == [10.0, 20.0]
    assert job.log.names("warning") == ["periodic job failed"]


@in_virtual_time
async def test_wakes_during_a_round_are_one_more_round() -> None:
    job = Job(lasts_s=2.0)
    job.task.start()
    job.task.wake()
    await asyncio.sleep(1.0)
    job.task.wake()
    job.task.wake()
    await asyncio.sleep(8.0)
    assert job.at_s == [0.0, 2.0]


@in_virtual_time
async def test_no_round_after_stop() -> None:
    job = Job()
    job.task.start()
    await job.task.stop()
    job.task.wake()
    await asyncio.sleep(30.0)
    assert job.at_s == []
