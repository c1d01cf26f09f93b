"""Histories that are legal only by one of the rows on routes, and on single nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from staticfire.checkers.guarantees.facts import NodeExit, Timings
from tests.checkers.legal_histories import (
    Legal,
    changed_route,
    changed_table,
    cut,
    route,
)
from tests.support.history_language import fault, queues_confirmed


def histories() -> Iterator[Legal]:
    # routes.py
    whole, master_only = {"0": "n0", "1": "n1"}, {"0": "n0"}
    away = fault("partition", "ns-1", at_s=10, healed_s=200)
    yield route(
        "missing_route",
        away,
        (0, whole, "n0 n1"),
        (20, master_only, "n0 n1"),
        (190, whole, "n0 n1"),
    )
    yield route("stale_route", away, (0, whole, "n0 n1"), (20, whole, "n0"), (190, whole, "n0"))
    # route_changes.py
    pauses = fault("pause", "n0", at_s=52, healed_s=70)
    yield changed_route(
        "route_drift",
        "the leader could not register at the coordinator",
        pauses,
        queues={50: 8},
        said={0: 4, 75: 8},
    )
    # confirmed_queues.py
    lost = fault("disk_lost", "n0", at_s=54, healed_s=56)
    cut_power = fault("power_cut", "n0", at_s=54, healed_s=56)
    for row_of, mechanism, struck, more in (
        (
            "queues_forgotten",
            "the leader lost its disk, and no follower may have had the new queues",
            lost,
            {},
        ),
        (
            "queues_unsynced",
            "the disk of the leader had not stored the new queues",
            cut_power,
            {"timings": Timings(write_back_s=35.0)},
        ),
    ):
        forgets = changed_route(row_of, mechanism, struck, queues={0: 4}, said={0: 4})
        faults = (queues_confirmed(8, at_s=50), struck)
        yield replace(forgets, faults=faults, known={**forgets.known, **more})
    # server_tables.py
    yield changed_table(
        "the follower could not ask its leader, or could not write the answer",
        fault("pause", "n1", at_s=52, healed_s=70),
    )
    # route_changes.py
    freezes = fault("name_server_freeze", "ns-1", at_s=30, healed_s=40)
    yield changed_route(
        "departed_route",
        "a coordinator that stood still gives servers a registration period to come back",
        freezes,
        said={0: 4, 85: None},
    )
    away = cut("n0", "ns-1", at_s=40, healed_s=52)
    yield changed_route(
        "goodbye_lost",
        "the end of a connection did not reach the coordinator",
        away,
        said={0: 4, 90: None},
    )
    # node_exits.py
    yield Legal(
        mechanism="its disk failed: a page that could not be written back is noticed at the next fsync",
        anomaly="node_died",
        ops=("0 ok send a",),
        faults=(fault("failing_disk", "n0", at_s=5, healed_s=8),),
        known={"exits": (NodeExit(node="n0", time_ns=6 * 10**9, error="EIO"),)},
    )
