"""Hundreds of connections share a turn of the loop: what is beyond it waits, in order of arrival."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from staticfire.system_under_test.remoting.turn_share import SLICE_S, TURN_S, TurnShare


class Work:
    """Pieces of work that take `seconds` each, and a loop that runs turn by turn; `done` has the pieces by turn."""

    def __init__(self, seconds: float, *, is_shared: bool = True) -> None:
        self.share = TurnShare(is_shared=is_shared)
        self.done: list[list[str]] = [[]]
        self._seconds = seconds
        self._soon: list[Callable[[], object]] = []
        self.loop = cast(asyncio.AbstractEventLoop, self)

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        self._soon.append(partial(callback, *args))

    def do(self, name: str) -> None:
        self.done[-1].append(name)
        self.share.spend(self._seconds, self.loop)

    def fail(self) -> None:
        raise ZeroDivisionError

    def wait(self, *names: str) -> None:
        for name in names:
            self.share.wait(partial(self.do, name), self.loop)

    def run(self) -> list[list[str]]:
        while self._soon:
            ready, self._soon = self._soon, []
            self.done.append([])
            for callback in ready:
                callback()
        return [turn for turn in self.done if turn]


def test_a_turn_is_over_once_its_share_is_spent_and_begins_anew() -> None:
    work = Work(0.6 * TURN_S)
    work.do("a")
    assert not work.share.is_over
    work.do("b")
    assert work.share.is_over
    assert work.run() == [["a", "b"]]
    assert not work.share.is_over
    assert work.share.slice_s == TURN_S


def test_what_waits_takes_as_many_turns_as_it_needs_in_its_order() -> None:
    work = Work(0.6 * TURN_S)
    work.wait(*"abcde")
    assert work.share.is_over  # what comes now comes after them
    assert work.run() == [["a", "b"], ["c", "d"], ["e"]]


def test_work_that_is_longer_than_a_turn_has_one_for_itself() -> None:
    work = Work(3 * TURN_S)
    work.wait(*"abc")
    assert work.run() == [["a"], ["b"], ["c"]]


def test_a_connection_has_a_slice_while_others_wait() -> None:
    work = Work(0.0)
    assert work.share.slice_s == TURN_S
    work.wait("a")
    assert work.share.slice_s == SLICE_S


def test_an_error_of_one_does_not_hold_up_the_others() -> None:
    work = Work(0.0)
    work.share.wait(work.fail, work.loop)
    work.wait("a")
    with pytest.raises(ZeroDivisionError):
        work.run()
    assert work.run() == [["a"]]


def test_turns_that_are_not_shared() -> None:
    work = Work(3 * TURN_S, is_shared=False)
    work.wait(*"abc")
    assert not work.share.is_over
    assert work.share.slice_s == TURN_S
    assert work.run() == [["a", "b", "c"]]
    assert not work.share.is_over


def test_work_that_takes_no_time_is_done_in_one_turn() -> None:
    work = Work(0.0)
    work.wait(*"abc")
    assert work.run() == [["a", "b", "c"]]
