"""Damaged EDN: reading it gives one sentence or a history, in every form."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.model.history import HistoryError
from staticfire.harness.histories.sinks import sink_at
from staticfire.harness.histories.sources import source_at

STEADY = settings(max_examples=100)
EDN = b"""{:type :invoke, :f :subscribe, :value [0 1], :process 1, :time 1, :index 0}
{:type :ok, :f :subscribe, :value [0 1], :process 1, :time 2, :index 1}
{:type :invoke, :f :txn, :value [[:send 0 7] [:poll]], :process 1, :time 3, :index 2}
{:type :info, :f :start-partition, :value {:n1 #{"n2"}}, :process :nemesis, :time 3, :index 3}
{:type :ok, :f :txn, :value [[:send 0 [5 7]] [:poll {0 [[4 6] [5 7]]}]], :process 1, :time 4, :index 4}
{:type :info, :f :send, :value [[:send 0 9]], :process 2, :time 6, :index 6, :error [:timeout]}
"""


@pytest.mark.slow
@STEADY
@given(st.data())
def test_any_damage_is_a_sentence_or_a_history(data: st.DataObject) -> None:
    content = bytearray(EDN)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[at] ^= data.draw(st.integers(1, 255))
        else:
            content[at : at + 1] = data.draw(
                st.sampled_from([b"[", b"]", b"{}", b" nil ", b"-1", b"9" * 30, b":", b'"', b"#_"])
            )
    form = data.draw(st.sampled_from(["h.jsonl", "h.edn", "h.parquet"]))
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        (folder / "in.edn").write_bytes(content)
        assert "\n" not in converted(folder / "in.edn", folder / "out" / form)
        assert not list(folder.rglob(".*.tmp"))


def converted(source: Path, target: Path) -> str:
    """What was wrong; nothing if the history is there, and can be read."""
    try:
        opened = source_at(source)
        with sink_at(target, "run", opened.ops) as sink:
            for op in opened.ops():
                sink.add(op)
            sink.finish(torn=opened.torn)
        again = source_at(target)
        list(again.ops())
    except HistoryError as error:
        assert not target.exists()
        return str(error)
    assert again.torn == opened.torn
    return ""
