"""Formats the links of a proxy as a table."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from staticfire.faults.proxy import LinkFault, LinkStatus, Proxy
from staticfire.harness.truncated_repr import printable

COLUMNS = ("client", "server", "open", "up", "down", "held", "late", "dropped", "cut", "faults")
LEFT = ("client", "server", "faults")
UNITS = ("", "k", "M", "G", "T")


def links_table(proxy: Proxy) -> Table:
    """Return a table of every link so far, with the present faults below it."""
    table = Table(box=None, pad_edge=False, caption=_caption(proxy.faults), caption_justify="left")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True)
    for link in proxy.links():
        table.add_row(
            *(Text(printable(cell)) for cell in _row(link)), style="bold" if link.faults else None
        )
    return table


def _row(link: LinkStatus) -> tuple[str, ...]:
    both = (link.up, link.down)
    late = sum(way.delayed + way.limited + way.frozen for way in both)
    return (
        link.client,
        link.server,
        str(link.open),
        _size(link.up.passed),
        _size(link.down.passed),
        _size(link.held),
        _size(late),
        _size(sum(way.dropped for way in both)),
        str(link.cut + link.torn),
        " ".join(map(str, link.faults)),
    )


def _size(size: int) -> str:
    """Format a number of bytes with at most four digits and a unit."""
    value, unit = float(size), 0
    while value >= 9999.5:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f}{UNITS[unit]}"


def _caption(faults: Iterable[LinkFault]) -> str:
    lines = [_fault(fault) for fault in faults]
    return "\n".join(lines) or "no faults"


def _fault(fault: LinkFault) -> str:
    values = [f"{fault.delay_ms:g} ms" if fault.delay_ms else ""]
    values.append(f"± {fault.jitter_ms:g} ms" if fault.jitter_ms else "")
    values.append(f"{fault.bytes_per_s} bytes/s" if fault.bytes_per_s else "")
    how = " ".join([fault.kind.value, *filter(None, values)])
    where = f"{fault.client}>{fault.server} {fault.direction.value}"
    return f"{fault.number}: {how}  {where}  {_size(fault.bytes)} bytes, {fault.connections} connections"
