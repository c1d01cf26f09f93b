"""Histories that are legal only by one of the rows on routes, and on single nodes."""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.checkers.guarantees.facts import NodeExit
from tests.checkers.legal_histories import (
    Legal,
    changed_route,
    cut,
    route,
)
from tests.support.history_language import fault


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
