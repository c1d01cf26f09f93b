"""Coverage counters of logs and sends."""

from __future__ import annotations

from dataclasses import replace

from staticfire.checkers.model.history import NEMESIS, Op, OpType
from staticfire.harness.log_line import LogLine
from staticfire.harness.observers.probe import PROBE_PROCESS
from staticfire.harness.rocketmq.observers.coverage_counters import count_log, count_sends

NS = 1_000_000_000


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
        "store file deleted: queue": 1,
        "disk full": 1,
    }


def send(type_: OpType, error: str | None = None, **value: object) -> Op:
    return Op(index=0, time_ns=0, process=0, type=type_, f="send", value=value, error=error)


FORGED = {"illegal": "signature", "account": "forger"}


def test_sends_by_what_was_special() -> None:
    ops = [
        send("invoke", batch=3),
        send("ok", batch=3),
        send("ok"),
        send("ok", size=4095),
        send("ok", transaction="commit", delay_level=2),
        send("ok", delay_level=2),
        replace(send("ok"), value={"async": True}),
        send("ok", size=4096),
        send("ok", size=4096, batch=2),
        send("info", "one way: no broker answers"),
        send("fail", "broker-b refused the message with code 14: service not available now"),
        send("info", "broker-b refused the message with code 2: busy"),
        send("fail", "no name server knows the topic"),
        send("fail", "broker-b refused the message with code 13: too long", illegal="properties"),
        send("fail", "to be refused; it ended as ok: None", illegal="properties"),
        replace(send("ok", count=5), process=100_003, f="send_many"),
        send("ok", account="guest"),
        send("fail", "the right was withdrawn: AclException: No", account="guest"),
        send("fail", "to be refused; it ended as info: AclException: No", **FORGED),
        send("fail", "to be refused; it ended as info: no answer", **FORGED),
    ]

    assert count_sends(ops) == {
        "async": 1,
        "batched": 7,
        "compressed": 1,
        "delayed transaction": 1,
        "forwarded": 5,
        "illegal refused": 1,
        "one way": 1,
        "refused 14": 1,
        "refused 2": 1,
        "refused as withdrawn": 1,
        "refused without a right": 1,
        "signed accepted": 1,
    }


def test_acknowledgements_long_after_the_last_fault() -> None:
    healed = Op(
        index=0, time_ns=10 * NS, process=NEMESIS, type="info", f="stop_kill", value={"fault_id": 0}
    )
    ops = [healed, *(replace(send("ok"), time_ns=at_s * NS) for at_s in (54, 56, 70))]
    probe = replace(send("ok"), time_ns=80 * NS, process=PROBE_PROCESS)

    assert count_sends([*ops, probe]) == {"long after faults": 2}
    assert count_sends(ops[1:]) == {}


def test_idle_phases() -> None:
    times_s = (0, 119, 240, 241, 500)
    ops = [replace(send("info"), time_ns=at_s * NS) for at_s in times_s]
    probe = replace(send("info"), time_ns=370 * NS, process=PROBE_PROCESS)

    assert count_sends([*ops[:4], probe, ops[4]]) == {"idle phase": 2}
    assert count_sends([*ops[:2], probe]) == {}
