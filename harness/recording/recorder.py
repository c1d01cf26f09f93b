"""Appends ops to the history as they happen, one JSON line an op, before any part of the harness acts on the op.

So a crash of the harness loses no op that had an effect. Readers drop a torn last line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import orjson

from staticfire.checkers.model.history import Op, OpType, Stamp, encode_op
from staticfire.checkers.model.message_ranges import messages_in, sends_of
from staticfire.checkers.op_kinds.catalogue import DELIVERIES, SENDS
from staticfire.checkers.op_kinds.producer import SEND_MANY

Digest = Callable[[bytes], None]
STORED = frozenset({"physical_offset", "stored_at", "ranges"})  # a stored send has one of these


class Columns(Protocol):
    """A sink that also keeps the history as columns."""

    def add(self, op: Op, line: bytes) -> None: ...

    def finished(self) -> Path | None:
        """End the columns; return their folder, None if they are incomplete."""
        ...


class Recorder:
    """The one writer of a run's history and observations.

    `digest` covers every line of both, in the order in which they happened, but for `observe_state`.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        *,
        history: BinaryIO | None = None,
        observations: BinaryIO | None = None,
        digest: Digest | None = None,
        columns: Columns | None = None,
    ) -> None:
        self._now_ns = now_ns
        self._history = history
        self._observations = observations
        self._digest = digest
        self.columns = columns
        self.listeners: list[Callable[[Op], None]] = []  # called with every op
        self._is_over = False
        self.ops: list[Op] = []
        self.observations: list[dict[str, Any]] = []
        self.acknowledged = 0  # sends
        self.consumed = 0  # messages that listeners took
        # Called for each send that a broker has stored, also with a weaker status, to read the nodes at that instant.
        self.on_stored_send: Callable[[Op], None] | None = None

    def record(
        self,
        process: int,
        type: OpType,
        f: str,
        value: Mapping[str, object],
        error: str | None = None,
        node: str | None = None,
        stamp: Stamp | None = None,
    ) -> Op:
        op = Op(
            index=len(self.ops),
            time_ns=self._now_ns(),
            process=process,
            type=type,
            f=f,
            value=cast("dict[str, Any]", value),  # a JSON object
            error=error,
            node=node,
            stamp=stamp,
        )
        if self._is_over:
            return op
        self.ops.append(op)
        line = encode_op(op)
        self._write(self._history, line, self._digest)
        if self.columns is not None:
            self.columns.add(op, line)
        for listener in tuple(self.listeners):
            listener(op)
        if type == "ok":
            self._count(op)
        if f in SENDS and type != "invoke" and not STORED.isdisjoint(value):
            self._stored(op)
        return op

    def end(self) -> None:
        """End the history. Lines that clients write while they are being stopped are not part of it."""
        self._is_over = True

    def _count(self, op: Op) -> None:
        if op.f in SENDS:
            self.acknowledged += messages_in(op)
        elif op.f in DELIVERIES:
            self.consumed += messages_in(op)

    def _stored(self, op: Op) -> None:
        if self.on_stored_send is None:
            return
        if op.f == SEND_MANY:
            for value in sends_of(op.value):
                self.on_stored_send(replace(op, f="send", value=value))
        else:
            self.on_stored_send(op)

    def observe(self, kind: str, *, at_ns: int | None = None, **fields: Any) -> None:
        """Record an observation, made now or at `at_ns`."""
        time_ns = self._now_ns() if at_ns is None else at_ns
        self._add({"time_ns": time_ns, "kind": kind, **fields}, self._digest)

    def observe_state(self, kind: str, **fields: Any) -> None:
        """Record an observation that follows from the state of simulated processes, without adding it to the digest.

        The digest already covers the turns of these processes.
        """
        self._add({"time_ns": self._now_ns(), "kind": kind, **fields}, None)

    def _add(self, observation: dict[str, Any], digest: Digest | None) -> None:
        self.observations.append(observation)
        line = orjson.dumps(observation, option=orjson.OPT_APPEND_NEWLINE)
        self._write(self._observations, line, digest)

    def _write(self, target: BinaryIO | None, line: bytes, digest: Digest | None) -> None:
        if digest is not None:
            digest(line)
        if target is not None:
            target.write(line)
            target.flush()
