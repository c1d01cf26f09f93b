"""Wrongs of tables of servers: settings of groups and progress that a start loses, or that a slave does not copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_white_box import seen_of, without_kind
from tests.checkers.mutations.model import EVIDENCE, NoSuchSite, S
from tests.checkers.mutations.planting import Planting

Seen = Mapping[str, Any]


def _last(draft: Planting, table: str) -> tuple[dict[str, Seen], int]:
    """What each broker that runs at the end has, and when that is."""
    run = draft.run
    if not run.facts.tables_observed or not draft.is_of_site():
        raise NoSuchSite
    newest = {of["node"]: of for of in seen_of(run, "server_life")}
    tables = {of["node"]: of for of in seen_of(run, "server_table") if of["table"] == table}
    living = {node: of for node, of in tables.items() if newest[node]["ended"] is None}
    end_ns = max(run.end_ns, *(seen.get("time_ns", 0) for seen in run.observations))
    return living, end_ns


def _pair(draft: Planting, table: str) -> tuple[Seen, Seen, int]:
    """What a master and a slave of it have that are ready at the end, and when that is."""
    living, end_ns = _last(draft, table)
    ready = {node for node, of in living.items() if of["ready"]}
    pairs = [
        (living[master], living[slave])
        for master, *slaves in draft.run.facts.replica_sets.values()
        for slave in slaves
        if {master, slave} <= ready
    ]
    if not pairs:
        raise NoSuchSite
    return *draft.rng.choice(pairs), end_ns


@KINDS.mutation(
    "table_lost", "a master starts once more, and has a group's settings of before the last change"
)
def group_change_forgotten(draft: Planting) -> None:
    living, end_ns = _last(draft, "groups")
    masters = [nodes[0] for nodes in draft.run.facts.replica_sets.values()]
    changed = [living[node] for node in masters if node in living and living[node]["changes"]]
    if not changed:
        raise NoSuchSite
    of = draft.rng.choice(changed)
    life = {"kind": "server_life", "node": of["node"]}
    before = {**of, "changes": of["changes"] - 1, "emptied": False, "life": of["life"] + 1}
    draft.observations += [
        {**life, "time_ns": end_ns, "life": of["life"], "ended": "terminated"},
        {**life, "time_ns": end_ns + S, "life": of["life"] + 1, "ended": None},
        {**before, "time_ns": end_ns + S},
    ]


@KINDS.mutation("table_lost", "a master that lost its log registers without a group of its slave")
def group_not_restored(draft: Planting) -> None:
    master, slave, end_ns = _pair(draft, "groups")
    missing = draft.rng.choice(sorted(slave["entries"]))
    own = {name: of for name, of in slave["entries"].items() if name != missing}
    draft.observations.append(
        {
            "kind": "restored_table",
            "time_ns": end_ns,
            "node": master["node"],
            "life": master["life"],
            "broker_name": master["broker_name"],
            "table": "groups",
            "follower": slave["node"],
            "copy": slave["entries"],
            "own": own,
        }
    )


@KINDS.mutation("table_uncopied", "a group changes on a master, and 200 s later not on its slave")
def group_change_not_copied(draft: Planting) -> None:
    master, _, end_ns = _pair(draft, "groups")
    name = draft.rng.choice(sorted(master["entries"]))
    changes = master["changes"] + 1
    entries = {**master["entries"], name: "retry_queue_nums 12"}
    changed = {**master, "changes": changes, "version": f"{changes} of 1", "entries": entries}
    draft.observations += [{**changed, "time_ns": end_ns}, _end(end_ns)]


@KINDS.mutation(
    "table_uncopied",
    "a master delivers delayed messages, and 200 s later its slave knows nothing of it",
)
def delay_progress_not_copied(draft: Planting) -> None:
    master, _, end_ns = _pair(draft, "delays")
    level = str(draft.rng.randrange(1, 19))
    entries = {**master["entries"], level: master["entries"].get(level, 0) + 1}
    draft.observations += [{**master, "time_ns": end_ns, "entries": entries}, _end(end_ns)]


def _end(end_ns: int) -> dict[str, Any]:
    return {"kind": "events", "time_ns": end_ns + 200 * S, "log": {}, "history": {}}


@KINDS.mutation(EVIDENCE, "no table of a broker was written down", unknown_is_enough=True)
def tables_unobserved(draft: Planting) -> None:
    without_kind(draft, "server_table")
