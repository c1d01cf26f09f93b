"""Reading a history line by line: the same ops as all at once; torn and damaged lines."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import HistoryError, Op, decode_history, encode_op
from staticfire.checkers.model.history_lines import HistoryLines
from tests.support.history_language import history

STEADY = settings(max_examples=300)
OPS = history(
    "1 ok open node=c1",
    "0 invoke send a",
    "0 ok send a",
    "2 info send b error=FLUSH_DISK_TIMEOUT",
    "1 ok assign 0 1",
    "1 ok consume a b",
    "1 ok commit 0:2",
    "9 ok probe b key=x",
    "9 ok drain",
)
DATA = b"".join(map(encode_op, OPS))


def read(data: bytes) -> tuple[list[Op], bool]:
    lines = HistoryLines(io.BytesIO(data), "history")
    return list(lines), lines.torn


def test_lines_are_read_one_by_one() -> None:
    assert read(DATA) == (OPS, False)
    assert read(b"") == ([], False)


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_a_torn_line_is_reported(cut: int) -> None:
    assert read(DATA[:-cut]) == (OPS[:-1], True)


@pytest.mark.slow
@STEADY
@given(st.data())
def test_damaged_lines_are_a_sentence_or_a_history(data: st.DataObject) -> None:
    """Read in one go and one by one they come to the same."""
    content = bytearray(DATA)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "put", "again"])):
            case "flip":
                content[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del content[at : at + data.draw(st.integers(1, 40))]
            case "put":
                content[at:at] = data.draw(
                    st.sampled_from([b"null", b"9" * 30, b"[]", b"\n", b'"', b"{}"])
                )
            case "again":
                content += content[at:]
        if not content:
            return
    whole, one_by_one = said_of(bytes(content), all_at_once=True), said_of(bytes(content))
    assert type(whole) is type(one_by_one)
    if not isinstance(whole, str):
        assert whole == one_by_one
        said_of_columns(whole[0])


def said_of(data: bytes, *, all_at_once: bool = False) -> str | tuple[list[Op], bool]:
    try:
        if not all_at_once:
            return read(data)
        decoded = decode_history(data)
    except HistoryError as error:
        return str(error)
    return decoded.ops, decoded.torn


def said_of_columns(ops: list[Op]) -> str:
    try:
        build_columns(ops)
    except HistoryError as error:
        return str(error)
    return ""
