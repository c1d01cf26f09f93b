"""Lines between harness and client: any chunking, and any bytes."""

from __future__ import annotations

import pytest

from staticfire.checkers.op_kinds.fields import NUMBER, WHOLE
from staticfire.harness.clients import lines
from staticfire.harness.clients.lines import (
    LineError,
    LineSplitter,
    check_fields,
    decode_line,
    encode_line,
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_the_same_however_they_are_cut(size: int) -> None:
    data = b'{"a":1}\n\n{"b":"two"}\n{"torn'
    splitter = LineSplitter()
    found = [
        line for at in range(0, len(data), size) for line in splitter.feed(data[at : at + size])
    ]
    assert found == [b'{"a":1}', b"", b'{"b":"two"}']


def test_a_line_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 10)
    splitter = LineSplitter()
    assert splitter.feed(b"0123456789\n0123456789") == [b"0123456789"]
    with pytest.raises(LineError, match="longer than 10 bytes"):
        splitter.feed(b"!")


def test_many_lists_beside_each_other_are_not_deep() -> None:
    line = encode_line({"messages": [["k", [number]] for number in range(1000)]})
    assert len(decode_line(line)["messages"]) == 1000


def test_an_object_comes_back_as_it_was() -> None:
    fields = {"id": 1, "f": "send", "key": "ключ\n", "size": 2**53}
    assert decode_line(encode_line(fields).removesuffix(b"\n")) == fields


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"", "is no JSON"),
        (b"Segmentation fault", "'Segmentation fault' is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[1]", "is no JSON object"),
        (b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "is nested deeper than 200 levels"),
        (b'{"a":' + b"[" * 9000 + b"]" * 9000 + b"}", "is no JSON"),
        (b'"' + b"x" * 1000, r"x\.\.\.' is no JSON"),
    ],
)
def test_what_is_no_object_is_shown(line: bytes, complaint: str) -> None:
    with pytest.raises(LineError, match=complaint):
        decode_line(line)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({}, "a request lacks 'id'"),
        ({"id": "1"}, "'id' of a request is '1'; expected a whole number"),
        ({"id": True}, "'id' of a request is True; expected a whole number"),
        ({"id": 1 << 63}, "'id' of a request is 9223372036854775808; allowed are whole numbers"),
        ({"id": -1 << 63}, "'id' of a request is -9223372036854775808; allowed are whole numbers"),
        (
            {"id": 1, "share": None},
            "'share' of a request is None; expected a whole number or a number",
        ),
    ],
)
def test_fields_have_types(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(LineError, match=complaint):
        check_fields("a request", fields, {"id": WHOLE}, {"share": NUMBER})


def test_other_fields_may_be_there() -> None:
    check_fields("a request", {"id": 1, "later": []}, {"id": WHOLE})
