"""The latency plot: percentiles over time, failed ops below, faults as bands."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.spark_analysis.results.latency import Slice

US_PER_MS = 1000
COLOURS = {"send": "tab:blue", "consume": "tab:green"}


def can_plot() -> bool:
    """Whether the library is there."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_latency(path: Path, slices: Sequence[Slice], facts: RunFacts, title: str) -> None:
    """Write an SVG or PNG, by the suffix of `path`. Raises OSError."""
    from matplotlib.figure import Figure  # without pyplot: no state, no display

    figure = Figure(figsize=(12, 6), layout="constrained")
    latency, failures = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for f, colour in COLOURS.items():
        rows = [at for at in slices if at.f == f and at.ok]
        seconds = [at.at_s for at in rows]
        for values, style in (
            ([at.p50_us for at in rows], "-"),
            ([at.p99_us for at in rows], ":"),
        ):
            label = f"{f} {'p50' if style == '-' else 'p99'}"
            latency.plot(
                seconds, [(us or 0) / US_PER_MS for us in values], style, color=colour, label=label
            )
        failed = [at for at in slices if at.f == f and at.not_ok]
        failures.scatter(
            [at.at_s for at in failed], [at.not_ok for at in failed], s=6, color=colour, label=f
        )
    for fault in facts.faults:
        if fault.bitten_ns is not None:
            end_ns = fault.healed_ns if fault.healed_ns is not None else fault.bitten_ns
            for axes in (latency, failures):
                axes.axvspan(
                    fault.bitten_ns / NS_PER_S, end_ns / NS_PER_S, color="tab:red", alpha=0.15
                )
    if any(at.p99_us for at in slices):  # nothing but zeros has no logarithm
        latency.set_yscale("log")
    latency.set_ylabel("latency, ms")
    latency.set_title(title)
    if slices:
        latency.legend(loc="upper right")
    failures.set_ylabel("not ok")
    failures.set_xlabel("s")
    figure.savefig(path)
