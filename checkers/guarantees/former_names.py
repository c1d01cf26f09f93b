"""Reads verdicts of earlier versions: former names of anomalies and facts, and facts that these did not record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticfire.checkers.guarantees.fault_effects import STALLS, STOPS

# The version of verdict.json. Facts have former names before version 3, anomalies in version 1, which has no number.
VERDICT_VERSION = 3
VERSIONS_READ = range(1, VERDICT_VERSION + 1)
ANOMALIES_RENAMED = 2
FACTS_RENAMED = 3

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

# Former name of a fact, or of one of its timings -> the name since version 3.
FORMER_FACTS: Mapping[str, str] = {
    "brokers": "replica_sets",
    "name_servers": "coordinators",
    "slave_behind_max_bytes": "follower_behind_max_bytes",
}
FORMER_TIMINGS: Mapping[str, str] = {
    "ha_silence_s": "replication_silence_s",
    "slave_sync_s": "follower_sync_s",
    "slave_timeout_s": "follower_timeout_s",
}
# Facts of older runs that `due` has replaced.
FACTS_GONE = frozenset({"asks_brokers"})
# older runs lack the effects on each of its targets
FREEZE_IN_RESTART = "name_server_freeze_in_rolling_restart"


def with_current_facts(facts: Any) -> Any:
    """Return facts as JSON with the names of version 3. A value of another type, from a damaged file, is unchanged."""
    if not isinstance(facts, dict):
        return facts
    found = _renamed(facts, FORMER_FACTS)
    if isinstance(found.get("timings"), dict):
        found["timings"] = _renamed(found["timings"], FORMER_TIMINGS)
    if isinstance(found.get("faults"), list):
        found["faults"] = [_with_own_effects(fault) for fault in found["faults"]]
    return {name: value for name, value in found.items() if name not in FACTS_GONE}


def _with_own_effects(fault: Any) -> Any:
    """Return a FREEZE_IN_RESTART, as JSON, with its effects by target: the first one freezes, the others restart."""
    if not isinstance(fault, dict) or fault.get("kind") != FREEZE_IN_RESTART:
        return fault
    struck, targets = fault.get("struck"), fault.get("targets")
    if not isinstance(struck, list) or not isinstance(targets, list):
        return fault
    return {**fault, "struck": [_with_effects(one, targets[:1]) for one in struck]}


def _with_effects(one: Any, frozen: list[Any]) -> Any:
    if not isinstance(one, dict) or one.get("affects") is not None:
        return one
    return {**one, "affects": [STALLS] if one.get("node") in frozen else [STOPS]}


def _renamed(fields: Mapping[str, Any], former: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields with their current names. A field with both names keeps both, and a later check refuses it."""
    return {
        former[name] if former.get(name, name) not in fields else name: value
        for name, value in fields.items()
    }


def current_name(name: str) -> str:
    """Return the current name of an anomaly, or of a count with it (`vanished_informational`)."""
    anomaly, suffix = name, ""
    for end in ("_allowed", "_informational", "_hazard"):
        if name.endswith(end):
            anomaly, suffix = name.removesuffix(end), end
    return FORMER_ANOMALIES.get(anomaly, anomaly) + suffix


def with_current_names(verdict: Any) -> Any:
    """Return a verdict of version 1, as JSON, with the names of version 2 in its counts, findings and shares.

    Values of another type there, from a damaged file, are unchanged.
    """
    if not isinstance(verdict, dict):
        return verdict
    found = dict(verdict)
    if "reportable" in found:
        found["reportable"] = _with_current_keys(found["reportable"])
    if isinstance(found.get("verdicts"), list):
        found["verdicts"] = [_checker_with_current_names(of) for of in found["verdicts"]]
    return found


def _checker_with_current_names(of_checker: Any) -> Any:
    if not isinstance(of_checker, dict):
        return of_checker
    found = dict(of_checker)
    if "counts" in found:
        found["counts"] = _with_current_keys(found["counts"])
    if isinstance(found.get("findings"), list):
        found["findings"] = [
            {**finding, "anomaly": current_name(finding["anomaly"])}
            if isinstance(finding, dict) and isinstance(finding.get("anomaly"), str)
            else finding
            for finding in found["findings"]
        ]
    return found


def _with_current_keys(counts: Any) -> Any:
    if not isinstance(counts, dict):
        return counts
    return {current_name(name): count for name, count in counts.items()}
