"""Signals during a real run: their effect in each phase; the removal is never interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from staticfire.harness.interrupts import SIGNALS, Interrupts, deaf, left_whole, run_interruptibly


@pytest.fixture(autouse=True)
def hang_up_as_on_a_terminal() -> Iterator[None]:
    """Tests themselves may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


class Load:
    """A run that notes whether it was cut short."""

    def __init__(self, *, is_under_load: bool = True) -> None:
        self.cuts = 0
        self.is_under_load = is_under_load

    def cut_short(self) -> None:
        self.cuts += 1


async def _deliver(number: int) -> None:
    os.kill(os.getpid(), number)
    for _ in range(5):
        await asyncio.sleep(0)


async def _signals(load: Any, numbers: list[int], *, removing: bool = False) -> bool:
    """Whether the task was cancelled."""

    async def run() -> None:
        with Interrupts() as interrupts:
            interrupts.run = load
            if removing:
                interrupts.remove_now()
            for number in numbers:
                await _deliver(number)

    try:
        await asyncio.create_task(run())
    except asyncio.CancelledError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_before_the_load_a_signal_ends_the_run(number: int) -> None:
    assert asyncio.run(_signals(None, [number]))


def test_while_the_cluster_comes_up_a_signal_ends_the_run() -> None:
    load = Load(is_under_load=False)
    assert asyncio.run(_signals(load, [signal.SIGINT]))
    assert load.cuts == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_ends_the_load_and_a_second_one_the_run(number: int) -> None:
    load = Load()
    assert not asyncio.run(_signals(load, [number]))
    assert load.cuts == 1
    assert asyncio.run(_signals(load, [number, number]))


def test_the_removal_is_not_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    assert not asyncio.run(_signals(Load(), [signal.SIGINT, signal.SIGTERM], removing=True))
    assert "staticfire clean" in capsys.readouterr().err


def test_nohup_is_respected_and_what_there_was_returns() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    term = signal.getsignal(signal.SIGTERM)
    assert not asyncio.run(_signals(None, [signal.SIGHUP]))
    assert signal.getsignal(signal.SIGTERM) == term
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


# Work that removes what it made


class Made:
    """Something whose removal takes a while, in which signals come."""

    def __init__(self, *numbers: int) -> None:
        self.is_removed = False
        self._numbers = numbers

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        for number in self._numbers:
            await _deliver(number)
        self.is_removed = True


def test_work_that_is_interrupted_removes_what_it_made() -> None:
    made, reached = Made(signal.SIGTERM), []

    async def work() -> None:
        async with left_whole(made):
            await _deliver(signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(work())
    assert made.is_removed
    assert not reached


def test_an_interruption_of_the_removal_comes_after_it() -> None:
    made = Made(signal.SIGINT, signal.SIGTERM)

    async def work() -> None:
        async with left_whole(made):
            pass

    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(work())
    assert made.is_removed


def test_an_error_of_the_work_is_raised_after_the_removal() -> None:
    made = Made()

    async def work() -> None:
        async with left_whole(made):
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        run_interruptibly(work())
    assert made.is_removed


def test_signals_are_not_heard_while_a_report_is_written() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with deaf():
        for number in SIGNALS:
            os.kill(os.getpid(), number)
    assert [signal.getsignal(number) for number in SIGNALS] == before
