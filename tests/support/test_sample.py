"""The sample of the cases of a slow test."""

from __future__ import annotations

from tests.support.sample import sample_of

CASES = tuple("abcdefghij")


def test_without_a_text_there_are_all() -> None:
    assert sample_of(CASES, 3, "") == list(CASES)


def test_a_text_chooses_a_sample_in_order() -> None:
    for text in ("one", "two"):
        chosen = sample_of(CASES, 3, text)
        assert chosen == sample_of(CASES, 3, text) == sorted(chosen)
        assert len(set(chosen)) == 3


def test_other_texts_come_to_all_cases() -> None:
    chosen = {case for text in range(40) for case in sample_of(CASES, 3, str(text))}
    assert chosen == set(CASES)


def test_there_may_be_fewer_cases() -> None:
    assert sample_of(CASES, 30, "one") == list(CASES)
