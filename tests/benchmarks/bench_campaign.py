"""CPU seconds of one default campaign of 60 virtual seconds, without faults and with them; where they go.

    PYTHONPATH=. python tests/benchmarks/bench_campaign.py [--seeds 5]

Set-up, heal, drain and judgement are part of a campaign, and of its figure. Sends acknowledged differ by seed, so the
figure is also given for 2,000 of them.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.campaign.file import load_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated

ROOT = Path(__file__).parents[2]
ACKED = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    acked: int
    cpu_s: float


def default_campaign(seed: int, *, with_faults: bool) -> Campaign:
    given: dict[str, Any] = load_options("default")
    return draw_campaign(seed, given if with_faults else {**given, "faults": ()})


def measure(campaign: Campaign) -> Cost:
    start_s = time.process_time()
    result = run_simulated(campaign)
    cpu_s = time.process_time() - start_s
    acked = sum(op.f == "send" and op.type == "ok" for op in result.ops)
    return Cost(acked=acked, cpu_s=cpu_s)


def layer_of(file_name: str) -> str:
    """The folder below the project that a function belongs to; the parts of the interpreter go by their own name."""
    path = Path(file_name)
    if path.is_relative_to(ROOT):
        parts = path.relative_to(ROOT).parts
        return "/".join(parts[: min(2, len(parts) - 1)])
    return "built in" if file_name == "~" else path.parent.name


def shares(campaign: Campaign) -> Counter[str]:
    """Seconds under the profiler by layer, each function's own time."""
    profile = cProfile.Profile()
    profile.runcall(run_simulated, campaign)
    by_layer: Counter[str] = Counter()
    functions: dict[tuple[str, int, str], tuple[Any, ...]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file_name, _, _), (_, _, own_s, _, _) in functions.items():
        by_layer[layer_of(file_name)] += own_s
    return by_layer


def print_costs(label: str, costs: list[Cost]) -> None:
    cpu_s = median(cost.cpu_s for cost in costs)
    acked = median(cost.acked for cost in costs)
    scaled_s = median(cost.cpu_s / cost.acked * ACKED for cost in costs)
    print(f"{label:16} {cpu_s:6.2f} CPU s   {acked:6.0f} acked   {scaled_s:6.2f} CPU s for {ACKED}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    measure(default_campaign(0, with_faults=True))  # imports and caches
    for with_faults in (False, True):
        campaigns = [
            default_campaign(seed, with_faults=with_faults) for seed in range(1, options.seeds + 1)
        ]
        print_costs(
            "with faults" if with_faults else "without faults", list(map(measure, campaigns))
        )
    by_layer = shares(default_campaign(1, with_faults=True))
    total_s = by_layer.total()
    print("own time by layer, under the profiler")
    for layer, own_s in by_layer.most_common(12):
        print(f"  {layer:28} {own_s / total_s:6.1%}")


if __name__ == "__main__":
    main()
