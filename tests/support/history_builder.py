"""Builds a history op by op, each at the current time of a clock that the caller advances."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from staticfire.checkers.model.history import Op


class HistoryBuilder:
    """The ops so far. `pause` advances the clock by one of `pauses_ns`, drawn at random."""

    def __init__(self, random: Random, pauses_ns: Sequence[int]) -> None:
        self.ops: list[Op] = []
        self._random = random
        self._pauses_ns = pauses_ns
        self._now_ns = 0

    def pause(self) -> None:
        self._now_ns += self._random.choice(self._pauses_ns)

    def add(
        self,
        process: int,
        type: str,
        f: str,
        value: dict[str, Any],
        *,
        node: str | None = None,
        error: str | None = None,
    ) -> None:
        """Add an op that happens now."""
        self.ops.append(
            Op(
                index=len(self.ops),
                time_ns=self._now_ns,
                process=process,
                type=type,  # type: ignore[arg-type]  # one of the four
                f=f,
                value=value,
                node=node,
                error=error,
            )
        )
