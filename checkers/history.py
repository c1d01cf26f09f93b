"""What an op is, and how a history is written and read (one JSON object a line, Jepsen's keys)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

OpType = Literal["invoke", "ok", "fail", "info"]
NEMESIS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One event of a history: an invocation, or the completion that answers it.

    `fail` is a promise that the op did not happen; everything unclear is `info`.
    """

    index: int  # position in the history: dense, unique, starts at 0
    time_ns: int  # from the run's own clock, real or simulated
    process: int  # one logical client thread; NEMESIS is the fault injector
    type: OpType
    f: str  # "send", "consume", "drain", "start_partition"
    value: dict[str, Any] = field(default_factory=dict)
    error: str | None = None  # why; only on "fail" and "info"
    node: str | None = None  # where the process runs
