"""Sends that a broker refused because it was busy, with the reasons of the refusals.

Source: BrokerFastFailure of RocketMQ; clients do not retry after SYSTEM_BUSY.
"""

from __future__ import annotations

from collections import Counter

from staticfire.checkers.guarantees.verdict import seconds
from staticfire.checkers.model.history import Op
from staticfire.harness.results.run_result import RunResult

BUSY = " with code 2: "
NS_PER_MS = 1_000_000
# Remark of the refusal -> reason, and the option that decides it with RocketMQ's default.
CAUSES = {
    "[OVERLOAD]": ("did not fit into the queue", "sendThreadPoolQueueCapacity", "10000"),
    "[TIMEOUT_CLEAN_QUEUE]": (
        "had waited in it for too long",
        "waitTimeMillsInSendQueue",
        "200",
    ),
    "[PCBUSY_CLEAN_QUEUE]": (
        "waited while a flush stalled for longer than a second",
        "osPageCacheBusyTimeOutMills",
        "1000",
    ),
    "[REJECTREQUEST]": (
        "came while a flush stalled for longer than a second",
        "osPageCacheBusyTimeOutMills",
        "1000",
    ),
}


def busy_refusals(result: RunResult) -> list[str]:
    """Return a paragraph for each broker that refused sends with SYSTEM_BUSY."""
    by_broker: dict[str, list[Op]] = {}
    for op in result.ops:
        if op.f == "send" and op.type == "fail" and BUSY in (op.error or ""):
            by_broker.setdefault(str(op.error).partition(" ")[0], []).append(op)
    return [_paragraph(result, broker, ops) for broker, ops in sorted(by_broker.items())]


def _paragraph(result: RunResult, broker: str, refused: list[Op]) -> str:
    options = dict(result.campaign.broker_properties)
    causes = Counter(_cause(str(op.error)) for op in refused)
    parts = []
    for cause, count in causes.most_common():
        text, option, default = CAUSES.get(cause, (f"were answered {cause}", "", ""))
        parts.append(
            f"{count} {text}" + (f" ({option} {options.get(option, default)})" if option else "")
        )
    slowest_ms = _slowest_ns(result.ops, broker) // NS_PER_MS
    return (
        f"{broker} was too busy for {len(refused)} sends from t={seconds(refused[0].time_ns)} to "
        f"{seconds(refused[-1].time_ns)}: {', '.join(parts)}. Its disk was what stalled: the slowest send that was "
        f"acknowledged took {slowest_ms} ms. What is refused is not stored, and a client does not try again by itself "
        "after SYSTEM_BUSY: send more slowly, try again later, or give the log a faster disk."
    )


def _cause(error: str) -> str:
    remark = error.partition(BUSY)[2]
    return remark[: remark.find("]") + 1] or remark[:30]


def _slowest_ns(ops: list[Op], broker: str) -> int:
    """Return the longest time from a send to its acknowledgement."""
    begun: dict[int, int] = {}
    slowest = 0
    for op in ops:
        if op.f != "send":
            continue
        if op.type == "invoke":
            begun[op.process] = op.time_ns
        elif op.type == "ok" and op.value.get("broker") == broker and op.process in begun:
            slowest = max(slowest, op.time_ns - begun.pop(op.process))
    return slowest
