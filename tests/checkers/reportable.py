"""Prints in which share of a campaign each anomaly could have been reported, by the old rule and by the table.

`python -m tests.checkers.reportable --campaign default --seeds 0-9`. The old rule: no fault on any node, from when it
was fired until 30 s after it was healed.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.fault_times import FOREVER_NS, NS_PER_S, began_ns
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.measures.reportable import reportable, share_of
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.intervals import Span, joined
from staticfire.harness.cli.options import given_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated

NEAR_NS = 30 * NS_PER_S


def near_any_fault(facts: RunFacts) -> list[Span]:
    """When some fault on some node was active, or had been shortly before."""
    return joined(
        Span(
            began_ns(fault), (FOREVER_NS if fault.healed_ns is None else fault.healed_ns) + NEAR_NS
        )
        for fault in facts.faults
        if fault.bitten_ns is not None
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaign", default="default")
    parser.add_argument("--seeds", default="0-9")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    given = given_options(campaign=asked.campaign, followers=None, leaders=None, faults=None)
    before: dict[str, list[float]] = defaultdict(list)
    after: dict[str, list[float]] = defaultdict(list)
    for seed in range(int(first), int(last or first) + 1):
        result = run_simulated(draw_campaign(seed, dict(given)))
        _, timeline = build_columns(result.ops)
        facts = result.facts
        context = Context(facts=facts, timeline=timeline, promises=LossPromises(facts))
        near = near_any_fault(facts)
        for anomaly, share in reportable(context, lambda *_, near=near: near).items():
            before[anomaly].append(share)
        of_owners = share_of(context, lambda *_, near=near: near)
        for anomaly in ("late_delivery", "spurious_weak_status"):
            before[anomaly].append(0.0 if of_owners is None else of_owners)
        for anomaly, share in result.verdict.reportable.items():
            after[anomaly].append(share)
    print(f"{'':24} {'before':>8} {'after':>8} {'least':>8}")
    for anomaly, shares in sorted(after.items()):
        mean_before = sum(before[anomaly]) / len(before[anomaly])
        mean = sum(shares) / len(shares)
        print(f"{anomaly:24} {mean_before:8.1%} {mean:8.1%} {min(shares):8.1%}")


if __name__ == "__main__":
    main()
