"""One direction between two hosts: its delays, its faults, and counters of the segments that they hit."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.harness.simulation.network.shaper import Shaper


class Link:
    """One direction between two hosts. Delays are in nanoseconds.

    A segment takes `base_ns` plus a jitter, which is small for most segments. `open` is False while the direction is
    dropped or the target has no power. `dropped` counts segments that a drop took, `unreachable` those sent to a host
    without power.

    Faults of the source's traffic: `extra_ns` delays each segment (`delayed` counts them), `loss` is the share of
    lost segments (`lost` counts them), and a `shaper` limits the rate.
    """

    __slots__ = (
        "_jitter_ns",
        "_random",
        "base_ns",
        "delayed",
        "dropped",
        "extra_ns",
        "is_dropping",
        "is_target_powered",
        "loss",
        "lost",
        "open",
        "shaper",
        "source",
        "target",
        "unreachable",
    )

    def __init__(self, source: str, target: str, base_ns: int, random: Callable[[], float]) -> None:
        self.source = source
        self.target = target
        self.base_ns = base_ns
        self.extra_ns = 0
        self.delayed = 0
        self.loss = 0.0
        self.lost = 0
        self.shaper: Shaper | None = None
        self.dropped = 0
        self.unreachable = 0
        self.is_dropping = False
        self.is_target_powered = True
        self.open = True
        self._random = random
        self._jitter_ns = 8 * base_ns

    def latency_ns(self) -> int:
        """Draw the delay of one segment."""
        if self.extra_ns:
            self.delayed += 1
        late = self._random()
        late *= late
        return self.base_ns + self.extra_ns + int(late * late * late * self._jitter_ns)

    def update(self, *, is_dropping: bool | None = None, is_powered: bool | None = None) -> None:
        """Change the conditions that stop segments; a condition that is not given stays as it is."""
        if is_dropping is not None:
            self.is_dropping = is_dropping
        if is_powered is not None:
            self.is_target_powered = is_powered
        self.open = self.is_target_powered and not self.is_dropping

    def lets_through(self) -> bool:
        """Whether a segment due now arrives; one that does not is counted."""
        if not self.open:
            self.count_loss()
            return False
        if self.loss and self._random() < self.loss:
            self.lost += 1
            return False
        return True

    def count_loss(self) -> None:
        """Count one segment that did not arrive."""
        if self.is_dropping:
            self.dropped += 1
        else:
            self.unreachable += 1
