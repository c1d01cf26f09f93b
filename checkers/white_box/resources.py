"""Resources of servers: after the run a server uses no more tasks, sockets, files and memory than before the load.

**task_leak**, **thread_leak**: a coordinator or broker has more asyncio tasks, or threads, than before the load.
**socket_leak**: it has more sockets. **file_leak**: it has more surplus file descriptors: those of removed files, and
all but the first of any other file. **memory_leak**: its resident memory has grown by more than `MEMORY_SLACK_BYTES`
plus `MEMORY_PER_MESSAGE_BYTES` for each acknowledged message.

**table_leak**: a table in a broker's memory has grown by more than `TABLE_SLACK`. The tables are held pulls, queue
locks, group members, finished half messages, and pairs of topic and group with offsets. After the clients have ended,
each entry of the first three belongs to a client that is gone, and a broker must forget it within 120 s.

The harness measures before it starts the clients. It measures again after it has ended them, and repeats that until the
two measurements agree, for longer than a server keeps a silent connection (120 s). The effects of faults must be over
by then, so no fault excuses a difference. The slack covers background work of a server; it does not grow with messages,
faults or connections.

Cannot see: tables of coordinators; half messages that are still open; resources of a node that ended during the run;
leaked files that are open only once; memory and threads in the simulation; tasks on real machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.engine.observed import NOT_OBSERVED, observed_verdict
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.model.columns import Columns

BEGIN, END = "begin", "end"
# Anomaly -> the counted resource, and its allowed growth. Threads: asyncio's default executor has up to 32.
SLACK = {
    "task_leak": ("tasks", 2),
    "thread_leak": ("threads", 36),
    "socket_leak": ("sockets", 4),
    "file_leak": ("surplus_files", 2),
}
# Table of a broker -> the allowed growth of its entries. The only client left is the harness's own producer, and a
# broker may have learned of it after the first measurement. A run has few topics and groups, including retry topics and
# those beside the load; their offsets stay.
TABLE_SLACK = {
    "heldPulls": 0,
    "queueLocks": 0,
    "consumers": 0,
    "producers": 1,
    "endedHalfMessages": 0,
    "consumerOffsets": 64,
}
MEMORY_SLACK_BYTES = 64 << 20
MEMORY_PER_MESSAGE_BYTES = 4096

Seen = Mapping[str, Any]  # an observation: counts, each None if the harness could not measure it


def growth(begin: Seen, end: Seen) -> Iterator[tuple[str, str]]:
    """Yield (anomaly, sentence) for each resource that has grown by more than is allowed."""
    for anomaly, (name, slack) in SLACK.items():
        before, after = begin[name], end[name]
        if before is not None and after is not None and after > before + slack:
            yield anomaly, f"{after} {name.replace('_', ' ')}, {before} before the load"
    yield from _grown_tables(begin.get("tables") or {}, end.get("tables") or {})
    before, after = begin["memory_bytes"], end["memory_bytes"]
    if before is None or after is None:
        return
    allowed = MEMORY_SLACK_BYTES + MEMORY_PER_MESSAGE_BYTES * end["acknowledged"]
    if after > before + allowed:
        grown, most = (size >> 20 for size in (after - before, allowed))
        yield (
            "memory_leak",
            f"resident memory grew by {grown} MiB, {most} are allowed",
        )


def _grown_tables(begin: Mapping[str, int], end: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield one anomaly with a sentence for all tables of a broker that have grown by more than is allowed."""
    grown = [
        f"{end[name]} {name}, {begin[name]} before the load"
        for name, slack in TABLE_SLACK.items()
        if name in begin and name in end and end[name] > begin[name] + slack
    ]
    if grown:
        yield "table_leak", "; ".join(grown)


def check_resources(_columns: Columns, context: Context) -> Verdict:
    """Judge the last measurement of each server by its first one."""
    first: dict[str, Seen] = {}
    last: dict[str, Seen] = {}
    for seen in context.observations:
        if seen["kind"] == "resources" and seen["when"] == BEGIN:
            first.setdefault(seen["node"], seen)
        elif seen["kind"] == "resources":
            last[seen["node"]] = seen
    measured = [node for node in first if node in last]
    sets = {node: name for name, nodes in context.facts.replica_sets.items() for node in nodes}
    findings = [
        Finding(
            anomaly=anomaly,
            judgement=judge(context.facts.mode, anomaly),
            op_index=-1,
            time_ns=last[node]["time_ns"],
            detail=f"{node} has {detail}" if anomaly != "memory_leak" else f"{node}: {detail}",
            broker=sets.get(node),
        )
        for node in measured
        for anomaly, detail in growth(first[node], last[node])
    ]
    missing = sorted(_servers(context) - set(measured))
    reason = f"{NOT_OBSERVED}: resources of {', '.join(missing)}" if missing else None
    return observed_verdict("resources", findings, {"servers": len(measured)}, reason)


def _servers(context: Context) -> set[str]:
    """Return the coordinators and brokers that remain at the end of the run."""
    facts = context.facts
    gone = {
        node
        for fault in facts.faults
        if fault.permanent and fault.fired_ns is not None
        for node in fault.targets
    }
    return {
        *facts.coordinators,
        *(node for nodes in facts.replica_sets.values() for node in nodes),
    } - gone


RESOURCES = Checker(
    name="resources",
    anomalies=(*SLACK, "table_leak", "memory_leak"),
    check=check_resources,
    rows=no_rows,
    applies=lambda context: context.facts.resources_observed,
    needs_observations=True,
)
