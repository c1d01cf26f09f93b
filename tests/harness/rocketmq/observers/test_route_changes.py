"""Changes of routes, master tables and running nodes: recorded without an effect on the run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.rocketmq.observers.route_changes import RouteChanges
from staticfire.harness.runs.simulated_runner import run_simulated

KINDS = {"server_life", "route_table", "topic_table", "server_table", "restored_table"}


def run() -> RunResult:
    options = {"coordinators": 2, "followers": (1,), "replication": "sync", "time_s": 20.0}
    return run_simulated(
        draw_campaign(3, {**options, "acks_min": 1, "faults": ("topic-change", "kill")})
    )


def of(result: RunResult, kind: str) -> list[dict[str, Any]]:
    return [seen for seen in result.observations if seen["kind"] == kind]


@pytest.mark.slow
def test_every_change_is_written_down_and_the_digest_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = run()
    monkeypatch.setattr(RouteChanges, "server_started", lambda *_: None)
    unseen = run()

    assert seen.digest == unseen.digest
    assert seen.verdict.valid is True
    assert unseen.verdict.valid == "unknown"
    left = [one for one in seen.observations if one["kind"] not in KINDS]
    assert left == list(unseen.observations)

    servers = {one["node"] for one in of(seen, "server_life")}
    assert servers == {*seen.facts.coordinators, *sum(seen.facts.replica_sets.values(), ())}
    ends = [one for one in of(seen, "server_life") if one["ended"] is not None]
    assert {one["ended"] for one in ends} == {"killed"}
    [(broker, nodes)] = seen.facts.replica_sets.items()
    # A broker whose connection has ended leaves the route of each name server that runs, within milliseconds.
    for end in (one for one in ends if one["node"] in nodes):
        later = [
            one
            for one in of(seen, "route_table")
            if 0 <= one["time_ns"] - end["time_ns"] < 100_000_000 and one["broker_name"] == broker
        ]
        assert any(end["node"] not in one["addresses"].values() for one in later)
    # Of each topic the last route says what the last table says.
    [table] = of(seen, "topic_table")[-1:]
    lasts = {one["node"]: one["topics"] for one in of(seen, "route_table")}
    assert list(lasts.values()) == [table["topics"]] * 2
    # What does not change is written down once.
    lines = Counter(
        (one["node"], one["life"], repr(one["topics"]), repr(one["addresses"]))
        for one in of(seen, "route_table")
    )
    assert max(lines.values()) <= 1 + len(ends)
