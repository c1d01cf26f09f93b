"""A host that plays dead: its name server and broker keep their connections and answer no request.

Source: NettyRemotingClient of RocketMQ, which asks one chosen name server and keeps the choice while the connection is
open; RocketMQ #2042, #5916, #8712.
"""

from __future__ import annotations

from itertools import pairwise

from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.guarantees.verdict import seconds
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.results.run_result import RunResult

TOGETHER_NS = NS_PER_S  # two faults this close belong to one host


def fake_death(result: RunResult) -> list[str]:
    """Return a paragraph for each time that a name server and a broker fell silent together."""
    frozen = [record for record in result.faults if _is_silent(record, "name-server-freeze")]
    paused = [record for record in result.faults if _is_silent(record, "pause")]
    return [
        _paragraph(result, server, broker)
        for server in frozen
        for broker in paused
        if abs(_begin(server) - _begin(broker)) <= TOGETHER_NS
    ]


def _is_silent(record: FaultRecord, kind: str) -> bool:
    return record.planned.kind == kind and record.bitten and record.fired_ns is not None


def _begin(record: FaultRecord) -> int:
    assert record.fired_ns is not None
    return record.fired_ns


def _paragraph(result: RunResult, server: FaultRecord, broker: FaultRecord) -> str:
    begin = _begin(server)
    end = server.healed_ns if server.healed_ns is not None else round(result.run_s * NS_PER_S)
    acked = [
        op.time_ns
        for op in result.ops
        if op.f == "send" and op.type == "ok" and begin <= op.time_ns <= end
    ]
    opened = sum(op.f == "open" and begin <= op.time_ns <= end for op in result.ops)
    longest_ns = max(later - earlier for earlier, later in pairwise([begin, *acked, end]))
    names = f"{', '.join(server.planned.targets)} and {', '.join(broker.planned.targets)}"
    return (
        f"{names} played dead from t={seconds(begin)} to {seconds(end)}: connections stayed open, and they answered "
        f"no client. {len(acked)} messages were acknowledged meanwhile, at most {longest_ns / NS_PER_S:.1f} s apart, "
        f"and {opened} clients that started then found their way: they ask all name servers at once, and wait for no "
        "silent one. A client that asks one chosen server, and keeps it while the connection is open, gets no route."
    )
