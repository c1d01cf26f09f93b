"""Histories of the semantics that the small language has no words for: delays, transactions, retries, requests."""

from __future__ import annotations

from typing import Any

from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.history import Op, OpType
from tests.support.history_language import BROKER, GROUP, TOPIC, facts
from tests.support.one_checker import judged_by

NS_PER_S = 1_000_000_000
RETRY_TOPIC, DEAD_TOPIC = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"


class Story:
    """Ops one after the other, each at a time in seconds."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._offsets: dict[tuple[str, int], int] = {}

    def op(
        self,
        at_s: float,
        type: OpType,
        f: str,
        value: dict[str, Any],
        *,
        process: int = 0,
        error: str | None = None,
        node: str | None = None,
    ) -> Story:
        time_ns = round(at_s * NS_PER_S)
        index = len(self.ops)
        self.ops.append(
            Op(
                index=index,
                time_ns=time_ns,
                process=process,
                type=type,
                f=f,
                value=value,
                error=error,
                node=node,
            )
        )
        return self

    def send(
        self,
        at_s: float,
        key: str,
        end: OpType = "ok",
        *,
        queue: int = 0,
        process: int = 0,
        took_s: float = 0.01,
        **more: Any,
    ) -> Story:
        """A send that begins at `at_s` and ends `took_s` later; kept back when it is delayed or a transaction."""
        value: dict[str, Any] = {"key": key, "topic": TOPIC, "size": 100, "attempts": 1, **more}
        self.op(at_s, "invoke", "send", value, process=process)
        kept_back = "delay_ms" in more or "transaction" in more
        place = {"broker": BROKER, "queue": queue, "status": "SEND_OK"}
        place["queue_offset"] = -1 if kept_back else self.next_offset(TOPIC, queue)
        ended = value if end == "fail" else {**value, **place}
        error = None if end == "ok" else "so it ended"
        return self.op(at_s + took_s, end, "send", ended, process=process, error=error)

    def place_next(self, offset: int, *, queue: int = 0) -> None:
        """The queue was cut: the next message comes to lie there."""
        self._offsets[TOPIC, queue] = offset

    def next_offset(self, topic: str, queue: int) -> int:
        offset = self._offsets.get((topic, queue), 0)
        self._offsets[topic, queue] = offset + 1
        return offset

    def consume(
        self,
        at_s: float,
        key: str,
        offset: int,
        end: OpType = "ok",
        *,
        topic: str = TOPIC,
        broker: str = BROKER,
        queue: int = 0,
        tries: int = 0,
        process: int = 100,
        takes_s: float = 0.01,
        group: str = GROUP,
        stored_ms: int | None = None,
    ) -> Story:
        contents = [None, None, None, None, stored_ms, None, None]
        value = {
            "group": group,
            "topic": topic,
            "broker": broker,
            "queue": queue,
            "messages": [[key, offset, 0, True, tries, contents]],
        }
        self.op(at_s, "invoke", "consume", value, process=process)
        if end == "invoke":
            return self
        return self.op(at_s + takes_s, end, "consume", value, process=process)

    def drained(self, at_s: float, *, end: int = 10, group: str = GROUP) -> Story:
        value = {"group": group, "topic": TOPIC, "queues": [[BROKER, 0, 0, end, end]], "lag": 0}
        return self.op(at_s, "ok", "drain", value, process=999)

    def opened(self, node: str, process: int, **reported: Any) -> Story:
        value = {"group": GROUP, "topic": TOPIC, "expression": "*", **reported}
        return self.op(0.0, "ok", "open", value, process=process, node=node)

    def verdict(self, checker: str, **changes: Any) -> Verdict:
        return judged_by(checker, self.ops, [], facts(**changes))

    def counts(self, checker: str, **changes: Any) -> set[str]:
        """The names of the anomalies that were counted, with their judgement unless they are violations."""
        verdict = self.verdict(checker, **changes)
        assert verdict.reason is None or "failed" not in verdict.reason, verdict.reason
        return {name for name in verdict.counts if _is_anomaly(verdict, name)}


def _is_anomaly(verdict: Verdict, name: str) -> bool:
    return any(name.startswith(finding.anomaly) for finding in verdict.findings)
