"""Progress is never ahead of the copies that it is made of."""

from __future__ import annotations

from staticfire.system_under_test.broker.delivery.safe_progress import SafeProgress


def test_progress_counts_when_its_copies_are_safe() -> None:
    progress = SafeProgress(5)
    progress.advance(100)
    progress.advance(200)
    assert progress.position == 7
    assert progress.confirm(99) == 5
    assert progress.confirm(100) == 6
    assert progress.confirm(300) == 7


def test_what_needs_no_copy_waits_for_those_before_it() -> None:
    progress = SafeProgress(0)
    progress.advance(100)
    progress.advance()
    assert progress.confirm(0) == 0
    assert progress.confirm(100) == 2


def test_jump_forgets_what_lies_behind() -> None:
    progress = SafeProgress(0)
    progress.advance(100)
    progress.jump(9)
    assert progress.confirm(500) == 9
