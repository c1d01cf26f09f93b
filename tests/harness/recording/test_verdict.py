"""Large runs: judged from the recorded columns, with the same verdict as from memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.verdicts.compose import RunVerdict, check_run
from staticfire.harness.recording import verdict as judging
from staticfire.harness.recording.columns import ColumnKeeper
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.recording.verdict import judge
from tests.support.history_language import BROKER, GROUP, TOPIC, facts


def recorded(folder: Path) -> Recorder:
    clock = iter(range(1000))
    recorder = Recorder(lambda: next(clock), columns=ColumnKeeper(folder, "run"))
    asked = {"topic": TOPIC, "key": "p3-0", "count": 20, "size": 64}
    place = {"broker": BROKER, "queue": 0}
    sent = {"status": "SEND_OK", "attempts": 1, "ranges": [["p3-0", 0, 0, 20, 230]]}
    recorder.record(3, "invoke", "send_many", asked)
    recorder.record(3, "ok", "send_many", {**asked, **place, **sent})
    got = [["p3-0", 0, 0, True, 0, 19, 230]]
    delivery = {"group": GROUP, "topic": TOPIC, **place, "ranges": got}
    recorder.record(100, "ok", "consume_many", delivery)
    queues = [[BROKER, 0, 0, 20, 20]]
    drain = {"group": GROUP, "topic": TOPIC, "queues": queues, "lag": 0}
    recorder.record(9, "ok", "drain", drain)
    return recorder


def test_the_verdict_is_that_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = recorded(tmp_path / "history.parquet")
    assert (recorder.acknowledged, recorder.consumed) == (20, 19)
    expected = check_run(recorder.ops, [], facts())
    assert expected.valid is False

    def no_memory(*_: object) -> RunVerdict:
        raise MemoryError

    monkeypatch.setattr(judging, "check_run", no_memory)
    assert judge(recorder, facts(), files_pay=39) == expected
    assert judge(recorder, facts(), files_pay=39) == expected  # a second call gets the same
    with pytest.raises(MemoryError):
        judge(recorder, facts(), files_pay=40)


def test_without_columns_memory_is_judged(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    recorder = recorded(tmp_path / "file")
    given: RunFacts = facts()
    assert judge(recorder, given, files_pay=1) == check_run(recorder.ops, [], given)
