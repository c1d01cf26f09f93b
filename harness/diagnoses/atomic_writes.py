"""Database writes and their messages, kept together by transactions, including those that a producer left open.

Source: transactional messages of RocketMQ. The producer sends the half message first, and its local write decides. If
the producer does not report the end, the broker asks any producer of the group, which reads the database.
"""

from __future__ import annotations

from collections import Counter

from staticfire.checkers.op_kinds.values import CheckBackReport, ConsumeReport, SendValue
from staticfire.harness.results.run_result import RunResult


def atomic_writes(result: RunResult) -> list[str]:
    """One paragraph if brokers had to ask how transactions ended."""
    decided: dict[str, str] = {}
    asked: dict[str, None] = {}
    questions = 0
    seen: dict[str, None] = {}
    for op in result.ops:
        if op.f == "send" and op.type != "invoke" and "transaction" in op.value:
            if op.type == "fail" and op.error != "rolled back":
                continue  # no half message was stored, and nothing was written
            send: SendValue = op.value
            decided[send["key"]] = send["transaction"]
        elif op.f == "check_back" and op.type == "ok":
            question: CheckBackReport = op.value
            questions += 1
            asked[question["key"]] = None
        elif op.f == "consume":
            delivery: ConsumeReport = op.value
            seen |= dict.fromkeys(message[0] for message in delivery["messages"])
    if not asked:
        return []
    ends = Counter(decided.values())
    later = Counter(decided.get(key, "unknown") for key in asked)
    torn = sum(how != "commit" and key in seen for key, how in decided.items())
    return [
        f"The database decided about {len(decided)} writes and their messages: {ends['commit']} were committed, "
        f"{ends['rollback']} rolled back. The producers of {len(asked)} transactions left the end open, died or were "
        f"cut off before they reported it. The brokers asked about these: they asked {questions} times and learned of "
        f"{later['commit']} commits and {later['rollback']} rollbacks. Consumers saw "
        f"{sum(key in seen for key in decided)} messages, "
        + (
            f"{torn} of them of writes that were rolled back."
            if torn
            else "none of a write that was rolled back."
        )
    ]
