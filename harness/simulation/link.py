"""One direction between two hosts: its delays, whether it is cut, and how many segments it swallowed."""

from __future__ import annotations

from collections.abc import Callable


class Link:
    """Delays are in nanoseconds.

    A segment takes `base_ns` plus a jitter that is mostly small. `open` is False while the direction is dropped or the
    target has no power; `dropped` counts the segments that a drop took, `unreachable` those sent to a dead host.
    """

    __slots__ = (
        "_jitter_ns",
        "_random",
        "base_ns",
        "dropped",
        "extra_ns",
        "is_dropping",
        "is_target_powered",
        "open",
        "source",
        "target",
        "unreachable",
    )

    def __init__(self, source: str, target: str, base_ns: int, random: Callable[[], float]) -> None:
        self.source = source
        self.target = target
        self.base_ns = base_ns
        self.extra_ns = 0
        self.dropped = 0
        self.unreachable = 0
        self.is_dropping = False
        self.is_target_powered = True
        self.open = True
        self._random = random
        self._jitter_ns = 8 * base_ns

    def latency_ns(self) -> int:
        """Draw the delay of one segment."""
        late = self._random()
        late *= late
        return self.base_ns + self.extra_ns + int(late * late * late * self._jitter_ns)

    def update(self, *, is_dropping: bool | None = None, is_powered: bool | None = None) -> None:
        """Change what stops segments; what is not given stays."""
        if is_dropping is not None:
            self.is_dropping = is_dropping
        if is_powered is not None:
            self.is_target_powered = is_powered
        self.open = self.is_target_powered and not self.is_dropping

    def count_loss(self) -> None:
        """Count one segment that did not arrive."""
        if self.is_dropping:
            self.dropped += 1
        else:
            self.unreachable += 1
