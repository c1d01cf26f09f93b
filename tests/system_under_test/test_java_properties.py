"""The format of Java's `.properties` files."""

from __future__ import annotations

import pytest

from system_under_test.java_properties import format_properties, parse_properties


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
        ("", {}),
    ],
)
def test_the_format(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_what_is_written_is_read_back() -> None:
    values = {"path": "C:\\logs\\a", "lines": "one\ntwo\rthree", "list": "a;b = c", "empty": ""}
    kept = {name: value for name, value in values.items() if value}
    assert parse_properties(format_properties(values)) == kept
