"""Tables of servers during the run: settings of groups, and progress, over starts of leaders and on followers.

**table_lost**: a leader that starts has settings of groups with fewer changes than when its last process ended, or
other settings after as many changes. Or a leader that has opened an empty log, and begins to register, lacks settings,
offsets of groups or progress of delayed messages that a follower had at all times since the leader's start.
**table_uncopied**: a follower that knows its leader lacks settings of a group, or progress of delayed messages or of a
group, that the leader has had for longer than the follower's next check for changes and one request take. The leader's
progress is that in its file. For offsets the time until its next write also counts, because an operator may set an
offset back before it.

The harness records every change (`server_table`, `restored_table`, `server_life`).

Cannot see: settings that changed and changed back while the leader did not write its table; progress that a follower
had and the leader lost without losing its log; followers that do not run while the leader restores its tables; the last
change of a leader that ends before it runs again.

Source: SubscriptionGroupManager, ConfigManager and SlaveSynchronize of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any, NamedTuple

from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.engine.observed import NOT_OBSERVED, observed_verdict
from staticfire.checkers.guarantees.facts import Timings
from staticfire.checkers.guarantees.promises import NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding, Verdict, seconds
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.intervals import Span, joined, shared, without
from staticfire.checkers.white_box.route_changes import Changes

TABLES = ("groups", "delays", "offsets")
Seen = Mapping[str, Any]
# name -> text, which must be equal, or number, which must be at least as high
Entries = Mapping[str, Any]


class Held(NamedTuple):
    """The entries of a table of a server, in an interval in which it is ready."""

    span: Span
    entries: Entries  # with the version of the table under the empty name


def check_server_tables(_columns: Columns, context: Context) -> Verdict:
    """Judge the tables of each leader after its starts, and those of its followers."""
    ordered = sorted(context.observations, key=lambda seen: int(seen["time_ns"]))
    seen: dict[tuple[str, str], list[Seen]] = {}  # server and table ->
    for of in ordered:
        if of["kind"] == "server_table":
            seen.setdefault((of["node"], of["table"]), []).append(of)
    restored = [of for of in ordered if of["kind"] == "restored_table"]
    changes = Changes(context.observations)
    findings = [*_forgotten(context, seen), *_not_restored(context, restored)]
    for broker, nodes in sorted(context.facts.replica_sets.items()):
        for follower in nodes[1:]:
            for table in TABLES:
                findings += _uncopied(context, changes, seen, (broker, nodes[0], follower), table)
    servers = [node for nodes in context.facts.replica_sets.values() for node in nodes]
    unseen = sorted(node for node in servers if any((node, of) not in seen for of in TABLES))
    missing = f"{NOT_OBSERVED}: tables of {', '.join(unseen)}" if unseen else None
    counts = {"table_changes": sum(map(len, seen.values())), "restored_tables": len(restored)}
    return observed_verdict("server_tables", findings, counts, missing)


def _forgotten(
    context: Context, seen: Mapping[tuple[str, str], Sequence[Seen]]
) -> Iterator[Finding]:
    """Yield a finding for each start of a leader that lacks settings which its last process had."""
    for broker, nodes in sorted(context.facts.replica_sets.items()):
        mine = seen.get((nodes[0], "groups"), ()) if nodes else ()
        lives = [list(of) for _, of in groupby(mine, key=lambda of: of["life"])]
        for (*_, before), (after, *_) in pairwise(lives):
            is_older = after["changes"] < before["changes"]
            is_other = after["changes"] == before["changes"] and _behind(
                before["entries"], after["entries"]
            )
            if not after["emptied"] and (is_older or is_other):
                words = _difference(before["entries"], after["entries"]) or "an older version"
                detail = (
                    f"{nodes[0]}: groups after a start, compared with its last process: {words}"
                )
                yield _finding(context, "table_lost", after, broker, detail)


def _not_restored(context: Context, restored: Sequence[Seen]) -> Iterator[Finding]:
    """Yield a finding for each leader with an empty log that registers without entries that a follower had."""
    for of in restored:
        if _behind(of["copy"], of["own"]):
            words = _difference(of["copy"], of["own"])
            detail = f"{of['node']}: {of['table']} after the loss of its log, compared with {of['follower']}: {words}"
            yield _finding(context, "table_lost", of, of["broker_name"], detail)


def _uncopied(
    context: Context,
    changes: Changes,
    seen: Mapping[tuple[str, str], Sequence[Seen]],
    of: tuple[str, str, str],
    table: str,
) -> Iterator[Finding]:
    """Yield the first finding for one table of a follower; `of` names the replica set, its leader and the follower."""
    broker, leader, follower = of
    theirs = list(_held(changes, leader, seen.get((leader, table), ())))
    mine = list(_held(changes, follower, seen.get((follower, table), ())))
    bound_ns = _bound_ns(context.facts.timings, table)
    excused = context.excuses.spans("table_uncopied", None, (leader, follower))
    late = [
        (span, name, value)
        for name, value in _wanted(theirs, mine, bound_ns)
        for span in without(_without_it(theirs, mine, name, value), excused)
        if span.length_ns > bound_ns
    ]
    if late:
        span, name, value = min(late, key=lambda one: (one[0], not one[1], one[1]))
        own = next(one for one in mine if one.span.end_ns > span.start_ns)
        words = (
            f"{name}: {own.entries.get(name, 'none')}, not {value}" if name else "another version"
        )
        detail = (
            f"{follower}: {table} for {seconds(span.length_ns)} unlike those of {leader}: {words}"
        )
        yield _finding(context, "table_uncopied", {"time_ns": span.start_ns}, broker, detail)


def _wanted(
    theirs: Sequence[Held], mine: Sequence[Held], bound_ns: int
) -> Iterator[tuple[str, Any]]:
    """Yield the leader's entries, except progress that its follower reached within the bound and kept."""
    since: dict[tuple[str, Any], int] = {}
    for its in theirs:
        for entry in its.entries.items():
            since.setdefault(entry, its.span.start_ns)
    progress: dict[str, _Progress] = {}
    for (name, value), since_ns in since.items():
        if isinstance(value, int):
            if name not in progress:
                progress[name] = _Progress(mine, name)
            if progress[name].is_reached(value, since_ns, since_ns + bound_ns):
                continue
        yield name, value


class _Progress:
    """A follower's progress in one entry of a table over time, and the least value from each time on."""

    def __init__(self, mine: Sequence[Held], name: str) -> None:
        self._spans = [own.span for own in mine]
        self._ends = [span.end_ns for span in self._spans]
        self._values = [own.entries.get(name, -1) for own in mine]
        self._least = list(accumulate(reversed(self._values), min))[::-1]

    def is_reached(self, value: int, since_ns: int, until_ns: int) -> bool:
        """Whether the follower had at least `value` at a time between both, and at all later times."""
        row = bisect_right(self._ends, since_ns)
        while row < len(self._values) and self._values[row] < value:
            row += 1
        if row == len(self._values):
            return False
        return self._spans[row].start_ns <= until_ns and self._least[row] >= value


def _without_it(theirs: Sequence[Held], mine: Sequence[Held], name: str, value: Any) -> list[Span]:
    """Return the times in which the leader had an entry, or more progress, and the follower did not."""
    has = [its.span for its in theirs if not _lacks(value, its.entries.get(name))]
    lacks = [own.span for own in mine if _lacks(value, own.entries.get(name))]
    return shared(joined(has), lacks)


def _bound_ns(timings: Timings, table: str) -> int:
    """Return how long an entry of a follower may be behind, in ns.

    A group's offset that an operator sets back, or removes, is in the leader's file until the next write.
    """
    written_s = timings.offset_persist_s if table == "offsets" else 0.0
    return int((timings.follower_sync_s + written_s + timings.request_s) * NS_PER_S)


def _held(changes: Changes, node: str, mine: Sequence[Seen]) -> Iterator[Held]:
    """Yield the entries that a server had while it ran and was ready; each observation holds until the next one."""
    down = [span for span, _ in changes.down(node)]
    ends = [*(int(of["time_ns"]) for of in mine[1:]), changes.end_ns]
    for of, end_ns in zip(mine, ends, strict=False):
        if of["ready"]:
            for span in without([Span(int(of["time_ns"]), end_ns)], down):
                yield Held(span, {**of["entries"], "": of["version"]})


def _behind(wanted: Entries, found: Entries) -> bool:
    """Whether an entry of `wanted` is missing in `found`, its text differs, or its number is lower."""
    return any(_lacks(wanted[name], found.get(name)) for name in wanted)


def _lacks(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, int) and isinstance(found, int):
        return found < wanted
    return bool(wanted != found)


def _difference(wanted: Entries, found: Entries) -> str:
    """Return the first entry that is behind, as a text; empty if none is."""
    behind = (name for name in sorted(wanted) if _lacks(wanted[name], found.get(name)))
    return next((f"{of}: {found.get(of, 'none')}, not {wanted[of]}" for of in behind), "")


def _finding(context: Context, anomaly: str, of: Seen, broker: str, detail: str) -> Finding:
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=-1,
        time_ns=int(of["time_ns"]),
        detail=detail,
        broker=broker,
    )


SERVER_TABLES = Checker(
    name="server_tables",
    anomalies=("table_lost", "table_uncopied"),
    check=check_server_tables,
    rows=no_rows,
    applies=lambda context: context.facts.tables_observed,
    needs_observations=True,
)
