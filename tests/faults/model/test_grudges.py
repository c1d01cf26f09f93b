"""The pairs of nodes that a grudge separates."""

from __future__ import annotations

import pytest

from staticfire.faults.model import grudges


def test_halves_cut_every_pair_across_in_both_directions() -> None:
    assert sorted(grudges.halves(["a", "b", "c"])) == [
        ("a", "b"), ("a", "c"), ("b", "a"), ("c", "a"),
    ]  # fmt: skip


def test_one_is_cut_off_in_both_directions() -> None:
    assert sorted(grudges.one("b", ["a", "b", "c"])) == [
        ("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"),
    ]  # fmt: skip


def test_one_way_hears_no_other_and_is_heard() -> None:
    assert sorted(grudges.one_way("b", ["a", "b", "c"])) == [("a", "b"), ("c", "b")]


def test_bridge_is_the_only_way_between_the_halves() -> None:
    dropped = grudges.bridge(["a", "b", "c", "d", "e"])
    assert all("c" not in pair for pair in dropped)
    assert ("a", "d") in dropped
    assert ("d", "a") in dropped
    assert ("a", "b") not in dropped


@pytest.mark.parametrize("count", [1, 2, 3])
def test_ring_of_up_to_three_drops_nothing(count: int) -> None:
    assert grudges.ring([str(number) for number in range(count)]) == []


def test_ring_leaves_two_neighbours() -> None:
    dropped = grudges.ring(["a", "b", "c", "d", "e"])
    heard = {
        node: [o for o in "abcde" if o != node and (o, node) not in dropped] for node in "abcde"
    }
    assert heard["a"] == ["b", "e"]
    assert heard["c"] == ["b", "d"]
