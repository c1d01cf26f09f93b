"""Contents of routes: after the drain, the route of each topic at each coordinator equals the table of its leader.

**route_mismatch**: the number of read or write queues, or the permission, of a topic on a broker differs between a
coordinator and the broker's leader. Clients would send to queues that do not exist, or never read some that exist. Or
the leader had confirmed more queues to an operator than the coordinator names or the leader has.

The harness compares them after all faults are healed, and repeats that until they agree, for longer than brokers take
to register again (`registerNameServerPeriod`). So no fault excuses a difference, except one that made the leader forget
its confirmation (`checkers/derived/confirmed_queues.py`). **route_drift** (`route_changes.py`) judges differences
during the run.

Cannot see: a coordinator or a leader that does not answer; topics that no workload uses.

Source: RouteInfoManager.registerBroker and TopicConfigManager of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import ne
from typing import Any

from staticfire.checkers.derived.confirmed_queues import least_queues
from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.engine.observed import NOT_OBSERVED, observed_verdict
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.white_box.route_changes import Changes, drifts


def check_route_contents(_columns: Columns, context: Context) -> Verdict:
    """Judge the route of each topic at each coordinator by the leader's table, and the changes during the run."""
    seen = [of for of in context.observations if of["kind"] == "topic_route"]
    findings = [
        _finding(context, of, least)
        for of in seen
        if (least := _confirmed(context, of)) or ne(*_tables(of))
    ]
    counts = {"routes_compared": len(seen)}
    living = set(context.facts.living_sets)
    missing = NOT_OBSERVED if living - {of["broker_name"] for of in seen} else None
    if context.facts.route_changes_observed:
        changes = Changes(context.observations)
        findings += drifts(context, changes)
        counts["route_changes"] = changes.count
        missing = changes.unobserved(context) or missing
    return observed_verdict("route_contents", findings, counts, missing)


def _confirmed(context: Context, seen: Mapping[str, Any]) -> int:
    """Return how many queues the leader had confirmed, if the route or its own table has fewer; otherwise 0."""
    least = least_queues(context, seen["topic"], seen["broker_name"], seen["time_ns"])
    return least if any(min(of[:2]) < least for of in _tables(seen) if of is not None) else 0


def _tables(seen: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the queues and the permission of a topic in the route, and those in the leader's own table."""
    return seen.get("route"), seen.get("master")


def _finding(context: Context, seen: Mapping[str, Any], least: int) -> Finding:
    confirmed = f"; it had confirmed {least} of each" if least else ""
    route, own = map(_words, _tables(seen))
    return Finding(
        anomaly="route_mismatch",
        judgement=judge(context.facts.mode, "route_mismatch"),
        op_index=-1,
        time_ns=seen["time_ns"],
        detail=f"{seen['node']} says {route}, the leader says {own}{confirmed}",
        topic=seen["topic"],
        broker=seen["broker_name"],
    )


def _words(queues: Any) -> str:
    if queues is None:
        return "that there is no such topic"
    read, write, permission = queues
    return f"{read} read queues, {write} write queues, permission {permission}"


ROUTE_CONTENTS = Checker(
    name="route_contents",
    anomalies=("route_mismatch", "route_drift"),
    check=check_route_contents,
    rows=no_rows,
    applies=lambda context: context.facts.topic_routes_observed,
    needs_observations=True,
)
