"""Message ranges written by mutations are valid in a history."""

from __future__ import annotations

from tests.checkers.mutations.events import messages_of, with_messages

SECOND_FOLLOWS = [["p1-0", 0, 100, True, 0], ["p1-1", 1, 200, True, 0]]
PROBES = [["probe-broker-a-0", 0, 100, True, 0], ["probe-broker-a-1", 1, 200, True, 0]]


def test_messages_that_follow_are_one_stretch() -> None:
    value = with_messages({}, SECOND_FOLLOWS)
    assert value["ranges"] == [["p1-0", 0, 100, True, 0, 2, 100]]
    assert messages_of(value) == SECOND_FOLLOWS


def test_keys_of_another_form_stay_apart() -> None:
    value = with_messages({}, PROBES)
    assert [row[5] for row in value["ranges"]] == [1, 1]
    assert messages_of(value) == PROBES
