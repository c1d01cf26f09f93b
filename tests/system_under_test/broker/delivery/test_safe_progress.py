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


def test_a_damaged_copy_is_not_passed_before_it_is_repaired() -> None:
    progress = SafeProgress(5)
    progress.advance(100, 60)
    progress.advance(200, 150)
    progress.hold(150)
    progress.hold(99)  # no copy begins there
    assert not progress.holds(99)
    assert progress.confirm(300) == 6
    progress.release(150)
    assert progress.confirm(300) == 7
    progress.hold(150)  # it was safe
    assert not progress.holds(150)


def test_another_copy_takes_the_place_of_a_lost_one() -> None:
    progress = SafeProgress(5)
    progress.advance(100, 60)
    progress.advance(200, 150)
    progress.hold(60)
    assert progress.source_of(60) == 5
    assert progress.source_of(150) is None
    progress.renew(60, 400, 450)
    assert progress.confirm(449) == 5
    assert progress.confirm(450) == 7
