"""The writer produces the text that fastjson would."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.json_dialect import loads
from staticfire.system_under_test.protocol.json_writer import (
    dumps_browser_compatible,
    dumps_fastjson,
)

QUEUE = MessageQueue(topic="t", broker_name="b", queue_id=1)


@pytest.mark.parametrize(
    ("value", "fastjson", "standard"),
    [
        ({1: "x", 0: "a:1"}, '{0:"a:1",1:"x"}', '{"0":"a:1","1":"x"}'),
        ({"b": True, "a": [None, 1.5]}, '{"a":[null,1.5],"b":true}', None),
        ({QUEUE: 5}, '{{"brokerName":"b","queueId":1,"topic":"t"}:5}', ...),
        ('/<é"\\\n\x01', '"/<é\\"\\\\\\n\\u0001"', '"\\/<\\u00E9\\"\\\\\\n\\u0001"'),
        ("\u2028😀", '"\\u2028😀"', '"\\u2028\\uD83D\\uDE00"'),
        ({}, "{}", None),
    ],
)
def test_text(value: object, fastjson: str, standard: object) -> None:
    assert dumps_fastjson(value).decode() == fastjson
    if standard is not ...:
        assert dumps_browser_compatible(value).decode() == (standard or fastjson)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
)


@pytest.mark.slow
@given(st.dictionaries(st.text().filter(lambda key: key != "$ref"), VALUES))
def test_both_are_read_back(document: dict[str, object]) -> None:
    try:
        expected = loads(dumps_browser_compatible(document))
    except ValueError:  # a reference by accident
        return
    assert loads(dumps_fastjson(document)) == expected
