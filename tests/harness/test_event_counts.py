"""What is counted of logs and of sends."""

from __future__ import annotations

from dataclasses import replace

from checkers.history import Op, OpType
from harness.event_counts import count_log, count_sends
from harness.log_line import LogLine


def opened(**fields: object) -> LogLine:
    plain = {"clean": True, "cut_bytes": 0, "redispatched": 0, "end_offset": 9}
    return LogLine(0, "info", "store opened", {**plain, **fields})


def test_events_and_their_details() -> None:
    lines = [
        opened(),
        opened(clean=False, cut_bytes=7),
        LogLine(0, "info", "store file deleted", {"path": "/store/commitlog/00"}),
        LogLine(0, "info", "store file deleted", {"path": "/store/consumequeue/t/0/00"}),
        LogLine(0, "warning", "disk full", {}),
    ]

    assert count_log(lines) == {
        "store opened": 2,
        "store opened: unclean": 1,
        "store opened: cut": 1,
        "store file deleted": 2,
        "store file deleted: log": 1,
        "disk full": 1,
    }


def send(type_: OpType, error: str | None = None, **value: object) -> Op:
    return Op(index=0, time_ns=0, process=0, type=type_, f="send", value=value, error=error)


def test_sends_by_what_was_special() -> None:
    ops = [
        send("invoke", batch=3),
        send("ok", batch=3),
        send("ok"),
        send("ok", size=4095),
        send("ok", size=4096),
        send("ok", size=4096, batch=2),
        send("info", "one way: nobody answers"),
        send("fail", "broker-b refused the message with code 14: service not available now"),
        send("info", "broker-b refused the message with code 2: busy"),
        send("fail", "no name server knows the topic"),
        replace(send("ok", count=5), process=100_003, f="send_many"),
    ]

    assert count_sends(ops) == {
        "batched": 7,
        "compressed": 1,
        "forwarded": 5,
        "one way": 1,
        "refused 14": 1,
        "refused 2": 1,
    }
