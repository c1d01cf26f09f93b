"""Renders the templates of the pages. All values are escaped, and unprintable characters are shown as escapes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from staticfire.harness.truncated_repr import printable

SIGNS = {"valid": "✓", "invalid": "✗", "unknown": "?", "unfinished": "…", "damaged": "!"}
CELL_MAX = 300  # characters of a value in a table


def _finalize(value: object) -> object:
    if isinstance(value, Markup):
        return value
    return "" if value is None else printable(str(value))


def href(*parts: str, **query: object) -> str:
    """Return the address of a page: parts of its path, and a query of the non-empty values."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    wanted = {name: str(value) for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(wanted)}" if wanted else path


def seconds(value: Any) -> str:
    """Format nanoseconds as seconds; empty for None."""
    return f"{value / 1e9:.3f} s" if isinstance(value, int) and abs(value) < 1 << 63 else ""


def size(value: int) -> str:
    """Format a number of bytes with a unit."""
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def moment(changed_ns: int) -> str:
    """Format a time of the file system, in UTC."""
    return datetime.fromtimestamp(changed_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")


def lines(texts: Iterable[str]) -> Markup:
    """Return lines of a <pre>, each of them printable."""
    return Markup("\n").join(printable(text) for text in texts)


def compact(value: object) -> str:
    """Return a value as shortened JSON."""
    try:
        text = orjson.dumps(value, default=str).decode()
    except (TypeError, RecursionError):
        text = "a value that cannot be shown"
    return text if len(text) <= CELL_MAX else f"{text[:CELL_MAX]}..."


_ENVIRONMENT = Environment(
    loader=PackageLoader("staticfire.harness.serve"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_finalize,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals.update(href=href, signs=SIGNS)
_ENVIRONMENT.filters.update(seconds=seconds, size=size, moment=moment, lines=lines, compact=compact)


def page(
    template: str, status: int = 200, /, *, refresh_s: int | None = None, **values: Any
) -> HTMLResponse:
    """Return a page from a template; the browser reloads it after `refresh_s` seconds, unless None."""
    headers = {} if refresh_s is None else {"refresh": str(refresh_s)}
    text = _ENVIRONMENT.get_template(template).render(refresh_s=refresh_s, **values)
    return HTMLResponse(text, status, headers)
