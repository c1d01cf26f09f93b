"""The fingerprint of a verdict: which cause it shows, and which promise broke first.

Anomalies that follow from each other are one cause: a lost message leaves a gap that another message fills, so its
offset held two messages. The leading anomaly is the one nearest to the user; what only an observer of the nodes sees
comes last. Two runs with the same fingerprint show, as far as a verdict can say, the same failure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

# By cause, the anomalies of it, the leading one first.
CAUSES: dict[str, tuple[str, ...]] = {
    "loss": (
        "lost",
        "unseen",
        "lost_from_log",
        "log_hole",
        "inconsistent_offsets",
        "realtime_order",
        "acked_not_durable",
    ),
}


@dataclass(frozen=True, slots=True)
class Fingerprint:
    cause: str
    leading: str  # an anomaly

    def __str__(self) -> str:
        return self.leading if self.cause == self.leading else f"{self.cause} ({self.leading})"


def fingerprint_of(violated: Collection[str]) -> Fingerprint | None:
    """The fingerprint of a run with violations of these anomalies; None without any.

    Anomalies of no known cause are a cause each; the first by name counts, and only if no known cause shows.
    """
    for cause, anomalies in CAUSES.items():
        for anomaly in anomalies:
            if anomaly in violated:
                return Fingerprint(cause, anomaly)
    return Fingerprint(min(violated), min(violated)) if violated else None
