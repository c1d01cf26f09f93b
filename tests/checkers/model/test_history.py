"""Reading and writing histories: byte-stable output, torn ends, and one sentence for other damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.model.history import (
    HistoryError,
    Op,
    decode_history,
    encode_op,
    read_history,
    read_observations,
    write_history,
)

LINE = b'{"index":0,"time_ns":5,"process":1,"type":"ok","f":"send","value":{}}\n'


def test_an_op_is_one_line_with_jepsen_s_keys() -> None:
    op = Op(
        index=3, time_ns=5, process=1, type="info", f="send", value={"key": "a"}, error="timeout"
    )

    assert encode_op(op) == (
        b'{"index":3,"time_ns":5,"process":1,"type":"info","f":"send",'
        b'"value":{"key":"a"},"error":"timeout"}\n'
    )


VALUES = st.dictionaries(st.text(), st.integers(-(2**53), 2**53) | st.text() | st.booleans())


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["send", "consume"]), VALUES, st.none() | st.text())))
def test_what_is_written_is_read(rows: list[tuple[str, dict[str, object], str | None]]) -> None:
    ops = [
        Op(index=index, time_ns=index, process=1, type="info", f=f, value=value, error=error)
        for index, (f, value, error) in enumerate(rows)
    ]

    history = decode_history(b"".join(map(encode_op, ops)))

    assert (history.ops, history.torn) == (ops, False)


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    op = Op(index=0, time_ns=5, process=-1, type="info", f="start_kill", node="n0")
    write_history(tmp_path / "history.jsonl", [op])

    assert read_history(tmp_path / "history.jsonl").ops == [op]


@pytest.mark.parametrize("cut", range(1, len(LINE)))
def test_a_torn_last_line_is_read_up_to_the_tear(cut: int) -> None:
    history = decode_history(LINE + LINE.replace(b'"index":0', b'"index":1')[:cut])

    assert (len(history.ops), history.torn) == (1, True)


def test_an_empty_history_is_a_history() -> None:
    history = decode_history(b"")

    assert (history.ops, history.torn) == ([], False)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"{", b"", "h line 2: not JSON ("),
        (b'"type":"ok"', b'"type":"done"', "type is 'done'; allowed are invoke, ok, fail, info"),
        (
            b'"f":"send"',
            b'"f":"sned"',
            "f is 'sned'; known are answer, assign, ",
        ),
        (
            b'"process":1',
            b'"process":-1',
            "f is 'send'; the nemesis has only fire_<fault>, start_<fault>",
        ),
        (b'"process":1', b'"process":"1"', "process is '1'; expected int"),
        (b'"index":1', b'"index":true', "index is True; expected int"),
        (b'"time_ns":5', b'"time_ns":5.5', "time_ns is 5.5; expected int"),
        (b'"value":{}', b'"value":[]', "value is []; expected dict"),
        (b'"value":{}', b'"error":1', "error is 1; expected str"),
        (b'"value":{}', b'"colour":1', "unknown key 'colour'; known are error, f, index, node"),
        (b'"f":"send",', b"", "f is missing"),
        (b'"index":1', b'"index":0', "h line 2: index 0 appears twice; indices are 0, 1, 2, ..."),
        (b'"index":1', b'"index":7', "h line 2: index 7 follows 0; indices are 0, 1, 2, ..."),
    ],
)
def test_a_bad_line_is_one_sentence_with_its_number(old: bytes, new: bytes, message: str) -> None:
    second = LINE.replace(b'"index":0', b'"index":1')
    assert old in second

    with pytest.raises(HistoryError) as caught:
        decode_history(LINE + second.replace(old, new), name="h")

    assert message in str(caught.value)
    assert str(caught.value).startswith("h line 2: ")


@pytest.mark.parametrize("line", [b"[]\n", b"7\n", b"null\n", b"\n", b"\xff\n"])
def test_a_line_that_is_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(HistoryError, match=r"^h line 1: "):
        decode_history(line, name="h")


def test_observations_are_objects_with_a_kind_and_a_time(tmp_path: Path) -> None:
    path = tmp_path / "observations.jsonl"
    path.write_bytes(b'{"time_ns":1,"kind":"recovery","node":"n0"}\n{"time_ns":')
    observations = read_observations(path)
    assert (len(observations.records), observations.torn) == (1, True)

    path.write_bytes(b'{"time_ns":1}\n')
    with pytest.raises(HistoryError, match=r"^observations.jsonl line 1: kind is missing$"):
        read_observations(path)
