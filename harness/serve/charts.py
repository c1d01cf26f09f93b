"""Charts as SVG without scripts and inline styles, so that a strict content security policy holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from staticfire.harness.truncated_repr import printable

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 200, 46, 24, 8
LINES = (
    "solid",
    "dashed",
    "dotted",
    "long",
)  # classes of style.css: lines differ without colour, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Values at equal steps."""

    name: str
    values: Sequence[float]


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
    """Lines over an axis that begins at `begin` with a value every `step`; `label` says what the chart shows."""
    length = max((len(one.values) for one in series), default=0)
    top = max((value for one in series for value in one.values), default=0) or 1
    span = max(length - 1, 1) * step
    parts = [_band(band, begin, span) for band in bands]
    parts += [_line(one, number, top, length) for number, one in enumerate(series)]
    axis_y = HEIGHT - BOTTOM
    parts += [
        Markup('<line class="axis" x1="{0}" y1="{1}" x2="{2}" y2="{1}"/>').format(
            LEFT, axis_y, WIDTH
        ),
        _text(LEFT - 4, TOP + 8, _short(top), "end"),
        _text(LEFT - 4, axis_y, "0", "end"),
        _text(LEFT, HEIGHT - 6, f"{unit} {_short(begin)}", "start"),
        _text(WIDTH - 2, HEIGHT - 6, f"{unit} {_short(begin + span)}", "end"),
    ]
    legend = Markup("").join(_legend(one, number) for number, one in enumerate(series))
    picture = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    drawn = picture.format(WIDTH, HEIGHT, printable(label), Markup("").join(parts))
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>").format(drawn, legend)


def _x(share: float) -> float:
    return round(LEFT + (WIDTH - LEFT) * min(max(share, 0.0), 1.0), 1)


def _line(series: Series, number: int, top: float, length: int) -> Markup:
    height = HEIGHT - BOTTOM - TOP
    points = " ".join(
        f"{_x(place / max(length - 1, 1))},{TOP + height * (1 - value / top):.1f}"
        for place, value in enumerate(series.values)
    )
    return Markup('<polyline class="line {}" points="{}"/>').format(
        LINES[number % len(LINES)], points
    )


def _legend(series: Series, number: int) -> Markup:
    line = LINES[number % len(LINES)]
    sample = (
        '<svg class="sample" viewBox="0 0 30 8"><polyline class="line {}" points="0,4 30,4"/></svg>'
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
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
