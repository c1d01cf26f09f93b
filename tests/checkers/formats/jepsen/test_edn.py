"""EDN: the values of histories, round trips, and malformed text."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.formats.jepsen.edn import (
    EdnError,
    Keyword,
    UnfinishedEdn,
    parse_all,
    to_edn,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("-12", -12),
        ("12N", 12),
        ("1.5e3", 1500.0),
        ("2.5M", 2.5),
        (":a/b", Keyword("a/b")),
        ('"a\\n\\"b\\u00e9"', 'a\n"bé'),
        ("symbol", "symbol"),
        ("\\newline", "newline"),
        ("[1, 2 ,(3 4)]", [1, 2, [3, 4]]),
        ("#{1 2}", [1, 2]),
        ("{:a 1, [1 2] {}}", {Keyword("a"): 1, (1, 2): {}}),
        ("; before\n[1 ; within\n 2]", [1, 2]),
        ("#jepsen.history.Op{:f :send}", {Keyword("f"): Keyword("send")}),
        ('#inst "2026-11-21"', "2026-11-21"),
        ("[1 #_2 #_[3 [4]] 5 #_ 6]", [1, 5]),
        ("[]", []),
    ],
)
def test_values(text: str, value: Any) -> None:
    (parsed,) = parse_all(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize("text", ["[1", '{:a "b', "#{", '"abc', "[1 #_", "#tag", "#_"])
def test_text_that_is_not_finished(text: str) -> None:
    with pytest.raises(UnfinishedEdn):
        parse_all(text)


@pytest.mark.parametrize("text", ["]", "[1}", "{:a}", "{{} 1}", ":", "[1 #_]", '"\\q"', "9" * 5000])
def test_text_that_is_no_edn(text: str) -> None:
    with pytest.raises(EdnError):
        parse_all(text)


@pytest.mark.slow
def test_depth_is_no_danger() -> None:
    assert parse_all("[" * 100_000 + "]" * 100_000)
    with pytest.raises(UnfinishedEdn):
        parse_all("[" * 100_000)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
KEYWORDS = st.from_regex(r"[a-z][a-z0-9?-]{0,8}", fullmatch=True).map(Keyword)
VALUES = st.recursive(
    SCALARS | KEYWORDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(VALUES)
def test_what_is_written_is_read(value: Any) -> None:
    if not any(len(str(number)) > 40 for number in _integers(value)):
        assert parse_all(to_edn(value)) == [value]


def _integers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [n for key, item in value.items() for n in (*_integers(key), *_integers(item))]
    if isinstance(value, list):
        return [n for item in value for n in _integers(item)]
    return [value] if isinstance(value, int) else []


@given(st.text(alphabet='[]{}()#_:;"\\ ,\na1-.N'))
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    with suppress(EdnError):
        parse_all(text)
