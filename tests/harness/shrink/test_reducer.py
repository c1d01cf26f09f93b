"""The reducer with pure predicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from staticfire.harness.shrink.reducer import (
    Deletion,
    Pass,
    Reducer,
    Variants,
    smaller_numbers,
    without_chunks,
)

Items = tuple[int, ...]


CHUNKS: Pass[Items] = Variants(without_chunks)
DELETION: Pass[Items] = Deletion(lambda items: items, lambda _, left: tuple(left))


def first_of(
    fails: Callable[[Items], bool], candidates: Sequence[Items]
) -> tuple[int, Items] | None:
    return next(((index, one) for index, one in enumerate(candidates) if fails(one)), None)


def reduced(
    items: Items, fails: Callable[[Items], bool], width: int = 2, one: Pass[Items] = DELETION
) -> Items:
    """Also asserts that no candidate is tried twice, and that each step that is reported fails."""
    tried: list[Items] = []
    steps: list[Items] = []

    def try_all(candidates: Sequence[Items]) -> tuple[int, Items] | None:
        tried.extend(candidates)
        return first_of(fails, candidates)

    best = Reducer(
        {"items": one},
        try_all,
        lambda _name, step: steps.append(step),
        key=lambda candidate: candidate,
        width=width,
    ).reduce(items)
    assert len(tried) == len(set(tried))
    assert all(map(fails, steps))
    return best


def test_one_item_is_left_of_a_hundred() -> None:
    assert reduced(tuple(range(100)), lambda items: 37 in items) == (37,)


def test_items_that_are_far_apart_are_left_together() -> None:
    assert reduced(tuple(range(64)), lambda items: {3, 40, 63} <= set(items)) == (3, 40, 63)


def test_nothing_is_left_of_what_always_fails() -> None:
    assert reduced((1, 2, 3), lambda _items: True) == ()


def test_everything_stays_of_what_needs_it_all() -> None:
    assert reduced((1, 2, 3), lambda items: len(items) == 3) == (1, 2, 3)


def test_variants_are_tried_anew_after_each_that_fails() -> None:
    assert reduced(tuple(range(100)), lambda items: 37 in items, one=CHUNKS) == (37,)


def test_a_deletion_goes_on_behind_what_it_has_deleted() -> None:
    """Of 256 items two matter: about two trials for each size of chunk, not a new beginning for each."""
    tried = 0

    def fails(items: Items) -> bool:
        nonlocal tried
        tried += 1
        return {100, 200} <= set(items)

    assert reduced(tuple(range(256)), fails, width=1) == (100, 200)
    assert tried < 70


def test_a_deletion_that_is_not_possible_is_not_tried() -> None:
    only_even: Pass[Items] = Deletion(
        lambda items: items, lambda _, left: tuple(left) if len(left) % 2 == 0 else None
    )
    assert reduced((1, 2, 3, 4), lambda items: 3 in items, one=only_even) == (3, 4)


def test_the_result_is_the_same_however_many_are_tried_at_once() -> None:
    def fails(items: Items) -> bool:
        return sum(items) > 50

    assert len({reduced(tuple(range(20)), fails, width) for width in (1, 2, 7)}) == 1


def test_a_later_pass_makes_an_earlier_one_go_on() -> None:
    """(2, 1) fails only with the second number 0, and (0, 0) does; a pass a number."""

    def try_all(candidates: Sequence[Items]) -> tuple[int, Items] | None:
        return first_of(lambda one: one[0] >= 2 * one[1], candidates)

    passes: dict[str, Pass[Items]] = {
        "first": Variants(lambda one: [(n, one[1]) for n in smaller_numbers(one[0], 0)]),
        "second": Variants(lambda one: [(one[0], n) for n in smaller_numbers(one[1], 0)]),
    }
    best = Reducer(
        passes,
        try_all,
        lambda _name, _step: None,
        key=lambda one: one,
        width=1,
    ).reduce((2, 1))
    assert best == (0, 0)


def test_smaller_numbers_begin_with_the_least_and_end_with_one_less() -> None:
    assert list(smaller_numbers(9, 1)) == [1, 2, 4, 8, 8]
    assert list(smaller_numbers(1, 1)) == []
