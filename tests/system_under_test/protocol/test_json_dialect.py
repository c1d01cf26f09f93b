"""The reader accepts what fastjson writes; all other text that is not JSON raises one kind of error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.system_under_test.protocol.json_dialect import (
    DEPTH_MAX,
    REQUEST_ELEMENTS_MAX,
    REQUEST_SIZE_MAX,
    BodyError,
    count_elements,
    dumps,
    loads,
    loads_request,
)

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(("a", "b", "1", "-2", "$", "é")), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(VALUES)
def test_standard_json_is_read_from_bytes_and_from_text(value: Any) -> None:
    data = dumps(value)
    assert loads(data) == value
    assert loads(data.decode()) == value
    assert loads(b" \r\n\t" + data + b"\n") == value


@pytest.mark.slow
@given(VALUES)
def test_the_dialect_reader_reads_standard_json_too(value: Any) -> None:
    """An unquoted key in front forces the slow reader."""
    assert loads('{0 : 1, "value" : ' + json.dumps(value, ensure_ascii=False) + " }") == {
        "0": 1,
        "value": value,
    }


def test_integer_keys_become_text() -> None:
    text = '{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"offsets":{-1:{2:3}}}'
    assert loads(text) == {
        "brokerAddrs": {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"},
        "offsets": {"-1": {"2": 3}},
    }


def test_object_keys_become_the_text_of_their_json() -> None:
    text = '{"offsetTable":{{"queueId":1,"topic":"t","brokerName":"b"}:5,{"queueId":2}:6}}'
    table = loads(text)["offsetTable"]
    assert table == {'{"brokerName":"b","queueId":1,"topic":"t"}': 5, '{"queueId":2}': 6}
    assert loads(next(iter(table)))["queueId"] == 1


def test_references_stand_for_what_was_met_before() -> None:
    text = '{"a":[{"x":{"y":[1]}},{"$ref":"$.a[0].x"}],"b":{"$ref":"$.a[0]"}}'
    assert loads(text) == {"a": [{"x": {"y": [1]}}, {"y": [1]}], "b": {"x": {"y": [1]}}}


def test_references_in_the_dialect() -> None:
    assert loads('{0:[7],"b":{"$ref":"$.0"}}') == {"0": [7], "b": [7]}


def test_integer_keys_are_written_quoted() -> None:
    assert dumps({0: "a", 1: {2: None}}) == b'{"0":"a","1":{"2":null}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "[1 2]",
        "{,}",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{"a":1}x',
        "{a:1}",
        "{0:1",
        "{0.5:1}",
        "{0:}",
        "{{:1}",
        "{{}}",
        "{[1]:1}",
        "{null:1}",
        "{0:01}",
        "{0:nul}",
        "{0:nulls}",
        "{0:'a'}",
        '{0:"a',
        '{0:"\\x"}',
        '{0:"\x01"}',
        '{0:"\\ud800"}',
        "{0:NaN}",
        "{0:-}",
        "[" * 100_000,
        "{0:" * 100_000,
        "{" * 100_000,
        '{"a":{"$ref":"$"}}',
        '{"a":{"$ref":"$.a"}}',
        '{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}',
        '{"a":{"$ref":"$.missing"}}',
        '{"a":[1],"b":{"$ref":"$.a[1]"}}',
        '{"a":[1],"b":{"$ref":"$.a[99999999999999999999]"}}',
        '{"a":[1],"b":{"$ref":"$.a.length"}}',
        '{"a":[1],"b":{"$ref":"$.a[-1]"}}',
        '{"a":[1],"b":{"$ref":".."}}',
        '{"a":[1],"b":{"$ref":"$a"}}',
        '{"a":' + "[" * 5000 + '{"$ref":"$"}',
    ],
    ids=lambda text: text[:20],
)
def test_everything_else_is_one_kind_of_error(text: str) -> None:
    for body in (text, text.encode()):
        with pytest.raises(BodyError) as caught:
            loads(body)
        assert len(str(caught.value)) < 300


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(BodyError, match="UTF-8"):
        loads(b'{0:"\xff"}')


@pytest.mark.slow
@pytest.mark.parametrize("shared", ['"' + "x" * 10_000 + '"', "[" + "1," * 1_000 + "1]"])
def test_references_cannot_blow_a_body_up(shared: str) -> None:
    body = '{"a":' + shared + ',"b":[' + ",".join(['{"$ref":"$.a"}'] * 2_000) + "]}"
    with pytest.raises(BodyError, match="too many"):
        loads(body)


@pytest.mark.parametrize("shared", ['"' + "x" * 10_000 + '"', "[" + "1," * 1_000 + "1]"])
def test_references_of_a_request_count_as_what_they_stand_for(shared: str) -> None:
    body = '{"a":' + shared + ',"b":[' + ",".join(['{"$ref":"$.a"}'] * 10) + "]}"
    assert len(loads_request(body)["b"]) == 10
    with pytest.raises(BodyError, match="too many"):
        loads_request(body.replace("]}", ',{"$ref":"$.a"}' * 40 + "]}"))


def test_a_key_of_a_key_is_refused() -> None:
    """Each level would escape the quotes of all levels below: 30 levels in 120 bytes took gigabytes."""
    with pytest.raises(BodyError, match="key of a key, at 2"):
        loads("{" * 30 + "1:1" + "}:1" * 29 + "}")
    assert loads('{{"a":{"b":[1]}}:2,{"c":3}:4}') == {'{"a":{"b":[1]}}': 2, '{"c":3}': 4}


class CountedText(str):
    """A text that counts the characters which the parser copies out of it."""

    copied = 0

    def __getitem__(self, key: Any) -> str:
        part = super().__getitem__(key)
        self.copied += len(part)
        return part


@pytest.mark.parametrize("item", ["1", '"a"', "[]", "{}", "{2:3}"])
def test_the_dialect_is_read_in_linear_time(item: str) -> None:
    """For each item the parser looks at a few characters, however long the text is."""
    copied = []
    for count in (100, 1_000):
        text = CountedText("{0:[" + ",".join([item] * count) + "]}")
        loads(text)
        copied.append(text.copied)
    assert copied[1] < 10 * copied[0]


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"1," * REQUEST_ELEMENTS_MAX + b"1]",
        b"{0:[" + b"1," * REQUEST_ELEMENTS_MAX + b"1]}",
        b"[" * (REQUEST_ELEMENTS_MAX + 1),
        b"{" * (REQUEST_ELEMENTS_MAX + 1),
    ],
    ids=("standard", "dialect", "arrays", "objects"),
)
def test_a_request_with_too_many_elements_is_not_parsed(text: bytes) -> None:
    for body in (text, text.decode()):
        with pytest.raises(BodyError, match=f"elements; allowed: up to {REQUEST_ELEMENTS_MAX}"):
            loads_request(body)


def test_a_request_that_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(BodyError, match=f"allowed: up to {REQUEST_SIZE_MAX}"):
        loads_request(b'"' + b"x" * REQUEST_SIZE_MAX + b'"')


@pytest.mark.slow
@given(VALUES)
def test_a_request_within_the_limits_is_read_as_any_text(value: Any) -> None:
    assert loads_request(dumps(value)) == value


@pytest.mark.slow
@given(VALUES)
def test_elements_are_at_least_those_of_the_document(value: Any) -> None:
    def count(part: Any) -> int:
        members = part.values() if isinstance(part, dict) else part
        inner = sum(map(count, members)) if isinstance(part, dict | list) else 0
        return inner + (max(1, len(part)) if isinstance(part, dict | list) else 0)

    assert count_elements(dumps(value)) >= count(value)


def test_numbers_have_an_end() -> None:
    assert loads("{0:" + "1" * 300 + "e-400}") == {"0": pytest.approx(1.1111e-101, rel=1e-4)}
    with pytest.raises(BodyError):
        loads("{0:" + "1" * 10_000 + "}")
    with pytest.raises(BodyError):
        loads("{" + "1" * 10_000 + ":0}")


def test_the_deepest_document_is_read() -> None:
    text = "{0:" * DEPTH_MAX + "1" + "}" * DEPTH_MAX
    assert count_elements(text) == DEPTH_MAX
    assert "0" in loads_request(text)


@given(st.text(st.sampled_from('{}[]:,"0-1etn$ref.\\ '), max_size=30))
def test_random_text_is_a_value_or_a_body_error(text: str) -> None:
    try:
        value = loads(text)
    except BodyError:
        return
    assert loads(dumps(value)) == value
