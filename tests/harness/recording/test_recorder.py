"""The recorder: a line a write, in order, before any listener sees the op; the digest covers the same bytes."""

from __future__ import annotations

import io

from staticfire.checkers.model.history import Op, decode_history
from staticfire.harness.recording.recorder import Recorder


class CountingFile(io.BytesIO):
    """Remembers each write, and whether it was flushed before the next thing happened."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.flushed = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.writes.append(data)
        return super().write(data)

    def flush(self) -> None:
        self.flushed = len(self.writes)


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += 10
        return self.now_ns


def test_each_op_is_one_flushed_line_of_the_history() -> None:
    file = CountingFile()
    recorder = Recorder(Clock(), history=file)
    for number in range(3):
        recorder.record(7, "invoke", "send", {"key": f"k{number}"}, node="producer-1")
        assert file.flushed == len(file.writes) == number + 1
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in file.writes)
    assert decode_history(file.getvalue()).ops == recorder.ops


def test_indices_are_dense_and_times_are_those_of_the_run() -> None:
    recorder = Recorder(Clock())
    for _ in range(3):
        recorder.record(0, "invoke", "send", {"key": "k"})
    assert [(op.index, op.time_ns) for op in recorder.ops] == [(0, 10), (1, 20), (2, 30)]


def test_what_comes_after_the_end_is_not_written_down() -> None:
    file = io.BytesIO()
    recorder = Recorder(Clock(), history=file)
    recorder.record(0, "invoke", "send", {"key": "k"})
    recorder.end()
    recorder.record(0, "ok", "send", {"key": "k"})
    assert decode_history(file.getvalue()).ops == recorder.ops
    assert (len(recorder.ops), recorder.acknowledged) == (1, 0)


def test_a_torn_file_loses_only_its_last_op() -> None:
    file = io.BytesIO()
    recorder = Recorder(Clock(), history=file)
    for number in range(3):
        recorder.record(0, "invoke", "send", {"key": f"k{number}"})
    history = decode_history(file.getvalue()[:-7])
    assert (history.ops, history.torn) == (recorder.ops[:2], True)


def test_the_digest_gets_history_and_observations_in_the_order_of_events() -> None:
    digested: list[bytes] = []
    history, observations = CountingFile(), CountingFile()
    recorder = Recorder(Clock(), history=history, observations=observations, digest=digested.append)
    recorder.record(0, "ok", "send", {"key": "a"})
    recorder.observe("replica", master="m")
    recorder.record(0, "ok", "send", {"key": "b"})
    assert digested == [history.writes[0], observations.writes[0], history.writes[1]]


def test_an_acknowledgement_is_written_before_the_nodes_are_observed() -> None:
    file = CountingFile()
    recorder = Recorder(Clock(), history=file)
    seen: list[tuple[Op, int]] = []
    recorder.on_stored_send = lambda op: seen.append((op, len(file.writes)))
    recorder.record(0, "invoke", "send", {"key": "a"})
    recorder.record(0, "info", "send", {"key": "a"}, "RemotingTimeout")
    acknowledged = recorder.record(1, "ok", "send", {"key": "b", "physical_offset": 0})
    recorder.record(2, "ok", "consume", {"messages": []})
    weak = recorder.record(
        1, "info", "send", {"key": "c", "physical_offset": 9}, "FLUSH_DISK_TIMEOUT"
    )
    assert seen == [(acknowledged, 3), (weak, 5)]
