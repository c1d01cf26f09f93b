from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from staticfire.system_under_test.client.waiting import first_good, wait_until
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s


def answer(text: str | None, after_s: float) -> Callable[[], asyncio.Future[str]]:
    """A question that is answered (None: fails) after a while."""

    def ask() -> asyncio.Future[str]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        if text is None:
            loop.call_later(after_s, future.set_exception, ConnectionError("failed"))
        else:
            loop.call_later(after_s, future.set_result, text)
        return future

    return ask


@pytest.mark.parametrize(
    ("answers", "found", "at_s"),
    [
        ([("a", 0.1), ("b", 0.1)], "a", 0.1),
        ([("a", 9.0), ("b", 0.1)], "b", 0.6),  # the first one plays dead
        ([("a", 0.7), ("b", 9.0)], "a", 0.7),  # the first one is slow, but faster than the second
        ([(None, 0.1), ("b", 0.1)], "b", 0.2),  # a failure is not waited for
        ([("bad", 0.1), ("b", 0.1)], "b", 0.2),
        ([("bad", 0.1), (None, 0.2)], None, 0.3),
        ([("a", 9.0), ("b", 9.0), ("c", 0.1)], "c", 1.1),
    ],
)
@in_virtual_time
async def test_first_good(
    answers: list[tuple[str | None, float]], found: str | None, at_s: float
) -> None:
    questions = [answer(text, after_s) for text, after_s in answers]
    assert await first_good(questions, lambda text: text != "bad", patience_s=0.5) == found
    assert now_s() == pytest.approx(at_s)


@in_virtual_time
async def test_no_broker_to_ask() -> None:
    questions: list[Callable[[], asyncio.Future[str]]] = []
    assert await first_good(questions, bool, patience_s=0.5) is None


@in_virtual_time
async def test_wait_until_gives_up_and_leaves_the_futures_alone() -> None:
    late = answer("late", 5.0)()
    await wait_until([late], lambda: False, 2.0)
    assert now_s() == pytest.approx(2.0)
    assert await late == "late"
