"""Numbers of messages: computed for keys of the generators, assigned by a dictionary for all others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.model.message_ids import OTHER, UNKNOWN, MessageIds, dense_numbers, key_of

NUMBERS = st.integers(0, 3) | st.integers(0, 2**42)
LIKE_OURS = st.builds("p{}-{}".format, NUMBERS, NUMBERS)
KEYS = LIKE_OURS | st.text(max_size=4) | st.from_regex(r"p?0?\d{0,8}-?0?\d{0,14}", fullmatch=True)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("p0-0", 0),
        ("p1-7", (1 << 40) + 7),
        (f"p{2**22 - 1}-{2**40 - 1}", 2**62 - 1),
        (f"p{2**22}-0", OTHER),
        (f"p0-{2**40}", OTHER),
        ("p01-7", OTHER),
        ("p1-07", OTHER),
        ("p1-", OTHER),
        ("p-1", OTHER),
        ("p1-٣", OTHER),
        ("warm-up-broker-a-0", OTHER),
        ("", OTHER),
    ],
)
def test_the_id_of_a_key(key: str, message: int) -> None:
    assert MessageIds()[key] == message


@pytest.mark.slow
@given(st.lists(KEYS))
def test_a_key_follows_from_its_id_and_an_id_from_its_key(keys: list[str]) -> None:
    ids = MessageIds()
    messages = [ids[key] for key in keys]

    assert [key_of(message, ids.others) for message in messages] == keys
    assert all(0 <= message < 2**63 for message in messages)
    ids.forget()
    assert [ids[key] for key in keys] == messages


@given(st.lists(st.sampled_from([UNKNOWN, 0, 5, (3 << 40) + 9, 2**61, OTHER, OTHER + 2]) | NUMBERS))
def test_dense_numbers_are_one_to_one(messages: list[int]) -> None:
    ids = np.array(messages, np.int64)
    size, (first, second) = dense_numbers(ids[:3], ids[3:])
    numbers = np.concatenate((first, second)).tolist()

    assert (len(first), len(second)) == (min(3, len(ids)), max(0, len(ids) - 3))
    assert set(zip(messages, numbers, strict=True)) == set(
        dict(zip(messages, numbers, strict=True)).items()
    )
    assert len(set(numbers)) == len(set(messages))
    assert all(number < size and number >= UNKNOWN for number in numbers)
    assert [number == UNKNOWN for number in numbers] == [id_ == UNKNOWN for id_ in messages]
