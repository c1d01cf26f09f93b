"""Draws charts as SVG without scripts and inline styles, as a strict content security policy needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup, escape

from staticfire.harness.html_report.svg import nice_ticks
from staticfire.harness.truncated_repr import printable

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 200, 60, 24, 8
DASH = 2.0  # half the width of the dash for a single value
APART, ROOM = 24, 90  # space between labels
NAME, NAME_MAX = 150, 22  # width of the name of a value, and its characters
LINES = (
    "solid",
    "dashed",
    "dotted",
    "long",
)  # classes of style.css: lines differ without colour, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Values at equal steps; None: unknown, a gap in the line."""

    name: str
    values: Sequence[float | None]
    marks: Sequence[str] = ()  # names of single values, each with a dot


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """An interval of the x axis with a name."""

    name: str
    begin: float
    end: float


def line_chart(
    series: Sequence[Series],
    *,
    begin: float,
    step: float,
    unit: str,
    label: str,
    bands: Sequence[Band] = (),
) -> Markup:
    """Draw lines over an axis from `begin` with a value every `step`; `label` describes the chart."""
    length = max((len(one.values) for one in series), default=0)
    known = [value for one in series for value in one.values if value is not None]
    top = max(known, default=0) or 1
    span = max(length - 1, 1) * step
    marks = next((one.marks for one in series if one.marks), ())
    parts = [_band(band, begin, span) for band in bands]
    parts += _levels(top)
    parts += _names(marks, length) if marks else _steps(begin, span)
    parts += [_line(one, number, top, length) for number, one in enumerate(series)]
    axis_y = HEIGHT - BOTTOM
    parts += [
        Markup('<line class="axis" x1="{0}" y1="{1}" x2="{2}" y2="{1}"/>').format(
            LEFT, axis_y, WIDTH
        ),
        _text(LEFT - 4, TOP + 8, _short(top), "end"),
        _text(LEFT - 4, axis_y, "0", "end"),
    ]
    if not marks:
        parts += [
            _text(LEFT, HEIGHT - 6, f"{unit} {_short(begin)}", "start"),
            _text(WIDTH - 2, HEIGHT - 6, f"{unit} {_short(begin + span)}", "end"),
        ]
    legend = Markup("").join(_legend(one, number) for number, one in enumerate(series))
    picture = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    drawn = picture.format(WIDTH, HEIGHT, printable(label), Markup("").join(parts))
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>").format(drawn, legend)


def _levels(top: float) -> list[Markup]:
    """Draw horizontal lines at round values between 0 and the top."""
    height = HEIGHT - BOTTOM - TOP
    parts = []
    for value in nice_ticks(top, 4)[1:]:
        y = TOP + height * (1 - value / top)
        parts.append(
            Markup('<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
                LEFT, f"{y:.1f}", WIDTH, f"{y:.1f}"
            )
        )
        if y > TOP + APART:
            parts.append(_text(LEFT - 4, y + 4, _short(value), "end"))
    return parts


def _steps(begin: float, span: float) -> list[Markup]:
    """Draw vertical lines at round distances from the beginning, with labels where both ends leave room."""
    parts = []
    for value in nice_ticks(span, 8)[1:]:
        x = _x(value / span)
        parts.append(
            Markup('<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
                x, TOP, x, HEIGHT - BOTTOM
            )
        )
        if LEFT + ROOM < x < WIDTH - ROOM:
            parts.append(_text(x, HEIGHT - 6, _short(begin + value), "middle"))
    return parts


def _names(marks: Sequence[str], length: int) -> list[Markup]:
    """Draw the names below single values, as far as there is room; the first and the last one always."""
    every = max(1, -(-length * NAME // (WIDTH - LEFT)))
    parts = []
    for index, name in enumerate(marks):
        is_last = index == len(marks) - 1
        if not is_last and (index % every or index + every > len(marks)):
            continue
        words = printable(name)
        words = words if len(words) <= NAME_MAX else f"{words[: NAME_MAX - 1]}…"
        anchor = "start" if index == 0 else "end" if is_last else "middle"
        parts.append(_text(_x(index / max(length - 1, 1)), HEIGHT - 6, words, anchor))
    return parts


def _x(share: float) -> float:
    return round(LEFT + (WIDTH - LEFT) * min(max(share, 0.0), 1.0), 1)


def _line(series: Series, number: int, top: float, length: int) -> Markup:
    height = HEIGHT - BOTTOM - TOP
    drawn = Markup("")
    for is_known, interval in groupby(enumerate(series.values), lambda one: one[1] is not None):
        if not is_known:
            continue
        points = [
            (_x(index / max(length - 1, 1)), TOP + height * (1 - (value or 0.0) / top))
            for index, value in interval
        ]
        if length == 1:  # the only value holds over the whole width
            points = [(float(LEFT), points[0][1]), (float(WIDTH), points[0][1])]
        elif len(points) == 1 and not series.marks:  # a single point would not be visible
            points = [(points[0][0] - DASH, points[0][1]), (points[0][0] + DASH, points[0][1])]
        text = " ".join(f"{x},{y:.1f}" for x, y in points)
        drawn += Markup('<polyline class="line {}" points="{}"/>').format(
            LINES[number % len(LINES)], text
        )
    for index, (value, name) in enumerate(zip(series.values, series.marks, strict=False)):
        if value is not None:
            x, y = _x(index / max(length - 1, 1)), TOP + height * (1 - value / top)
            drawn += Markup(
                '<circle class="dot" cx="{}" cy="{:.1f}" r="4"><title>{}</title></circle>'
            ).format(min(max(x, LEFT + 4), WIDTH - 4), y, f"{printable(name)}: {_short(value)}")
    return drawn


def _legend(series: Series, number: int) -> Markup:
    line = LINES[number % len(LINES)]
    sample = (
        '<svg class="sample" viewBox="0 0 30 8" aria-hidden="true">'
        '<polyline class="line {}" points="0,4 30,4"/></svg>'
    )
    return Markup(f"<span>{sample} {{}}</span> ").format(line, printable(series.name))


def _band(band: Band, begin: float, span: float) -> Markup:
    left, right = _x((band.begin - begin) / span), _x((band.end - begin) / span)
    return Markup(
        '<rect class="band" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
    ).format(left, TOP, max(right - left, 1.5), HEIGHT - BOTTOM - TOP, printable(band.name))


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        x, y, anchor, escape(text)
    )


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    if value < 1:
        return f"{value:.2g}"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
