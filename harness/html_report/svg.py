"""Writes SVG as text: scales, axes, paths and bands for the charts of the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

from staticfire.checkers.guarantees.verdict import seconds
from staticfire.harness.truncated_repr import printable

WIDTH, LEFT, RIGHT = 960, 70, 14
TICKS_MAX = 10
CHARACTER = 6.4  # width of a character of a label


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Maps seconds of the run to x. All charts over time have the same scale."""

    end_s: float

    def __call__(self, at_s: float) -> float:
        share = min(max(at_s / self.end_s, 0.0), 1.0) if self.end_s > 0 else 0.0
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def ticks(self) -> list[float]:
        return nice_ticks(self.end_s)


@dataclass(frozen=True, slots=True)
class Band:
    """An interval in the background of a chart."""

    start_s: float
    end_s: float
    text: str


def at_s(time_ns: int) -> str:
    """Format a time of the run in seconds, cut off to milliseconds and not rounded, as on the console."""
    return f"{seconds(time_ns).removesuffix('s')} s"


def nice_ticks(top: float, count: int = TICKS_MAX) -> list[float]:
    """Return 0 and round numbers up to `top`, about `count` of them."""
    if not top > 0:
        return [0.0]
    raw = top / count
    unit = 10.0 ** floor(log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    return [step * number for number in range(int(top / step + 1e-9) + 1)]


def element(name: str, content: str = "", **attributes: object) -> str:
    """Return one element. `content` is markup, attribute values are text. `_` in names becomes `-`, `class_` class."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_plain(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def _plain(words: str) -> str:
    """Return text as markup, without control characters."""
    return escape(printable(words))


def _number(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def text(x: float, y: float, words: str, class_: str = "label", anchor: str | None = None) -> str:
    return element("text", _plain(words), x=x, y=y, class_=class_, text_anchor=anchor)


def titled(name: str, words: str, **attributes: object) -> str:
    """Return an element with a tooltip."""
    return element(name, element("title", _plain(words)), **attributes)


def svg(height: float, label: str, parts: Iterable[str], width: float = WIDTH) -> str:
    """Return a drawing with a text for screen readers."""
    return element(
        "svg",
        "".join(parts),
        viewBox=f"0 0 {_number(float(width))} {_number(float(height))}",
        role="img",
        aria_label=label,
    )


def path(points: Sequence[tuple[float, float]]) -> str:
    """Return the `d` of a line through points; a single point becomes a short, visible dash."""
    if len(points) == 1:
        x, y = points[0]
        return f"M{_number(x - 3)} {_number(y)}h6"
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def time_axis(scale: TimeScale, top: float, bottom: float) -> list[str]:
    """Return vertical lines with seconds below them."""
    parts = []
    for at_s in scale.ticks():
        x = scale(at_s)
        parts.append(element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        parts.append(text(x, bottom + 14, f"{at_s:g} s", "tick", "middle"))
    return parts


def bands_behind(bands: Iterable[Band], scale: TimeScale, top: float, bottom: float) -> list[str]:
    """Return faults as bands in the background, each with a tooltip."""
    return [
        titled(
            "rect",
            band.text,
            x=scale(band.start_s),
            y=top,
            width=max(scale(band.end_s) - scale(band.start_s), 1.0),
            height=bottom - top,
            class_="band",
        )
        for band in bands
    ]
