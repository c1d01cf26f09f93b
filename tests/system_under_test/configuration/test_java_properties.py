"""The format of Java's `.properties` files."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import pytest

from staticfire.system_under_test.configuration.java_properties import (
    REQUEST_LINES_MAX,
    REQUEST_SIZE_MAX,
    check_request,
    format_properties,
    parse_properties,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 \n\tb:2\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("# no=1\n! no=2\n\n  # no=3\na=#1", {"a": "#1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1;\\\n   2;\\\n   3", {"a": "1;2;3"}),
        ("a=ends with\\\\\nb=2", {"a": "ends with\\", "b": "2"}),
        ("a=\\u00e9\\t\\=\\x", {"a": "é\t=x"}),
        ("a\\=b=c\na\\ b=d", {"a=b": "c", "a b": "d"}),
        ("a\nb=\n=c", {"a": "", "b": "", "": "c"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=goes on\\", {"a": "goes on"}),
        ("a=1\\\\\\\n\\\n2", {"a": "1\\2"}),
        ("\\\n# no comment=1", {"#": "no comment=1"}),
        ("", {}),
    ],
)
def test_the_format(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_what_is_written_is_read_back() -> None:
    values = {"path": "C:\\logs\\a", "lines": "one\ntwo\rthree", "list": "a;b = c", "empty": ""}
    kept = {name: value for name, value in values.items() if value}
    assert parse_properties(format_properties(values)) == kept


class CountedText(str):
    """A text that counts the characters which are copied when another one is added to it, or a part is taken."""

    copied = 0

    def __add__(self, other: str) -> CountedText:
        CountedText.copied += len(self) + len(other)
        return CountedText(super().__add__(other))

    def __radd__(self, other: str) -> CountedText:
        CountedText.copied += len(self) + len(other)
        return CountedText(other.__add__(self))

    def __getitem__(self, key: Any) -> CountedText:
        part = CountedText(super().__getitem__(key))
        CountedText.copied += len(part)
        return part

    def lstrip(self, characters: str | None = None, /) -> CountedText:
        return CountedText(super().lstrip(characters))


def test_a_line_that_goes_on_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was copied again for each line: 4 million of them held a broker for minutes."""
    monkeypatch.setattr(re, "split", lambda pattern, text: list(map(CountedText, text.split("\n"))))
    count = 2_000
    assert parse_properties("a=" + "x\\\n" * count) == {"a": "x" * count}
    assert CountedText.copied < 10 * count


def test_a_long_line_is_read_without_a_memory_of_each_character() -> None:
    """The pattern could go back to each character of a name: 130 bytes for each."""
    name, value = "n" * 1_000_000, "v" * 1_000_000
    tracemalloc.start()
    try:
        assert parse_properties(f"{name}={value}") == {name: value}
        assert tracemalloc.get_traced_memory()[1] < 20 * len(name)
    finally:
        tracemalloc.stop()


def test_a_request_is_bounded() -> None:
    check_request("a=1\n" * (REQUEST_LINES_MAX - 1))
    with pytest.raises(ValueError, match=f"{REQUEST_LINES_MAX + 1} lines"):
        check_request("\r" * REQUEST_LINES_MAX)
    check_request("x" * REQUEST_SIZE_MAX)
    with pytest.raises(ValueError, match=f"allowed: up to {REQUEST_SIZE_MAX}"):
        check_request("x" * (REQUEST_SIZE_MAX + 1))
