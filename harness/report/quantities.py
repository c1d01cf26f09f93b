"""Formats quantities with their units."""

from __future__ import annotations

from collections.abc import Mapping

US_PER = {"us": 1, "ms": 1000, "s": 1_000_000}


def with_noun(number: int, noun: str) -> str:
    """Format a number with its noun: "1 seed", "2 seeds"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(time_us: float) -> str:
    """Format a duration with its unit, with at most three digits."""
    if time_us < 1000:
        return f"{time_us:g} µs"
    if time_us < 1_000_000:
        return f"{_three(time_us / 1000)} ms"
    return f"{_three(time_us / 1_000_000)} s"


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def counted(counts: Mapping[str, object]) -> str:
    """Format counts in words, with units: `send_p99_us` 1015807 is "send p99 1.02 s"."""
    parts = []
    for name, value in counts.items():
        if not value or not isinstance(value, int):
            continue
        stem, _, unit = name.rpartition("_")
        if unit in US_PER and stem:
            parts.append(f"{stem.replace('_', ' ')} {duration(value * US_PER[unit])}")
        elif unit == "bytes" and stem:
            parts.append(f"{stem.replace('_', ' ')} {value:,} B")
        else:
            parts.append(f"{name.replace('_', ' ')} {value:,}")
    return ", ".join(parts)
