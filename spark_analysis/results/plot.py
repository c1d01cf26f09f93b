"""Plots the latency of a run over time, with its faults as bands, and versions side by side."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import nan
from pathlib import Path
from statistics import median

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.spark_analysis.results.compare import Comparison
from staticfire.spark_analysis.results.latency import Slice

US_PER_MS = 1000
MARGINS = {"left": 0.07, "right": 0.985, "bottom": 0.08, "top": 0.94, "hspace": 0.06}
GAP_SLICES = 10
COLOURS = {"send": "tab:blue", "consume": "tab:green"}


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_latency(path: Path, slices: Sequence[Slice], facts: RunFacts, title: str) -> None:
    """Write the latency of a run as SVG or PNG, by the suffix of `path`. Raises OSError."""
    from matplotlib.figure import Figure  # not pyplot, which has global state

    # fixed margins, since a layout engine would draw everything twice
    figure = Figure(figsize=(12, 6))
    latency, failures = figure.subplots(
        2, 1, sharex=True, height_ratios=(3, 1), gridspec_kw=MARGINS
    )
    for f, colour in COLOURS.items():
        rows = [at for at in slices if at.f == f and at.ok]
        for values, style in (
            ([at.p50_us for at in rows], "-"),
            ([at.p99_us for at in rows], ":"),
        ):
            label = f"{f} {'p50' if style == '-' else 'p99'}"
            seconds, ms = with_gaps([at.at_s for at in rows], values)
            latency.plot(seconds, ms, f".{style}", ms=2, color=colour, label=label)
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
    if any(at.p99_us for at in slices):  # a logarithmic axis needs a value above 0
        latency.set_yscale("log")
    latency.set_ylabel("latency, ms")
    latency.set_title(title)
    if slices:
        latency.legend(loc="upper right")
    failures.set_ylabel("not ok")
    failures.set_xlabel("s")
    figure.savefig(path)


def with_gaps(
    seconds: Sequence[int], values_us: Sequence[int | None]
) -> tuple[list[float], list[float]]:
    """Return the points of a line in s and ms, which is interrupted where at least `GAP_SLICES` slices are missing."""
    slice_s = min((after - before for before, after in pairwise(seconds)), default=1)
    at_s: list[float] = []
    ms: list[float] = []
    for second, us in zip(seconds, values_us, strict=True):
        if at_s and second - at_s[-1] > GAP_SLICES * slice_s:
            at_s.append(second)
            ms.append(nan)
        at_s.append(second)
        ms.append((us or 0) / US_PER_MS)
    return at_s, ms


def plot_versions(
    path: Path, comparison: Comparison, slices: Mapping[str, Sequence[Slice]]
) -> None:
    """Write versions side by side as SVG or PNG: the share of runs with each anomaly, and the latency of sends.

    Args:
        slices: the slices of all runs of each version. The bars are medians over the slices, in milliseconds.

    Raises OSError.
    """
    from matplotlib.figure import Figure

    versions = list(comparison.runs)
    anomalies = list(comparison.by_label)
    height = 2.5 + 0.25 * len(versions) * max(len(anomalies) + 1, 3)
    figure = Figure(figsize=(12, min(height, 100)), layout="constrained")
    found, latency = figure.subplots(1, 2, width_ratios=(3, 2))
    thickness = 0.8 / len(versions)
    for number, version in enumerate(versions):
        runs, shift = comparison.runs[version], number * thickness
        counts = [comparison.invalid[version]]
        counts += [comparison.by_label[anomaly].get(version, 0) for anomaly in anomalies]
        bars = found.barh(
            [at + shift for at in range(len(counts))],
            [100 * count / runs for count in counts],
            thickness,
            label=f"{version} ({runs} run{'' if runs == 1 else 's'})",
        )
        found.bar_label(bars, [str(count) for count in counts], padding=2)
        sends = [at for at in slices[version] if at.f == "send" and at.ok]
        ms = [
            median((us or 0) / US_PER_MS for us in of) if of else 0.0
            for of in ([at.p50_us for at in sends], [at.p99_us for at in sends])
        ]
        bars = latency.bar([at + shift for at in range(len(ms))], ms, thickness, label=version)
        latency.bar_label(bars, [f"{value:.3g}" for value in ms], padding=2)
    middle = (len(versions) - 1) * thickness / 2
    found.set_yticks(
        [at + middle for at in range(len(anomalies) + 1)], ["any (invalid)", *anomalies]
    )
    found.invert_yaxis()
    found.set_xlim(0, 115)  # room for the number at the end of a bar
    found.set_xlabel("% of the runs of a version; numbers are runs")
    found.set_title("anomalies")
    found.legend(loc="lower right")
    latency.set_xticks([middle, 1 + middle], ["p50", "p99"])
    latency.margins(y=0.12)  # room for the number on top of a bar
    latency.set_ylabel("send, ms, median over seconds")
    latency.set_title("latency")
    figure.savefig(path)
