"""Former names of anomalies, for verdicts that earlier versions wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VERDICT_VERSION = (
    2  # of verdict.json; in version 1, which does not say it, anomalies have their former names
)

# Former name -> the name since version 2.
FORMER_ANOMALIES: Mapping[str, str] = {
    "answered_twice": "duplicate_reply",
    "dead_too_early": "premature_dead_letter",
    "ghost_route": "stale_route",
    "invisible": "not_found_by_id",
    "made_up_answer": "phantom_reply",
    "made_up_copy": "phantom_copy",
    "overtaken": "order_violated",
    "owned_twice": "double_ownership",
    "slow_switch": "slow_failover",
    "unindexed": "not_found_by_key",
    "vanished": "lost_from_log",
    "weak_though_safe": "spurious_weak_status",
}


def current_name(name: str) -> str:
    """The name of an anomaly, or of a count with it (`vanished_informational`), as this version gives it."""
    anomaly, suffix = name, ""
    for end in ("_allowed", "_informational", "_hazard"):
        if name.endswith(end):
            anomaly, suffix = name.removesuffix(end), end
    return FORMER_ANOMALIES.get(anomaly, anomaly) + suffix


def with_current_names(verdict: Any) -> Any:
    """A verdict of version 1, as JSON, with the names of version 2: keys, and texts that are a name alone."""
    match verdict:
        case dict():
            return {
                current_name(name): with_current_names(value) for name, value in verdict.items()
            }
        case list():
            return [with_current_names(value) for value in verdict]
        case str():
            return current_name(verdict)
    return verdict
