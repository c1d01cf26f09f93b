"""The table of links, as text."""

from __future__ import annotations

import pytest
from rich.console import Console

from staticfire.faults.proxy import LinkStatus, Proxy
from staticfire.harness.cli.proxy.table import links_table


def shown(proxy: Proxy) -> list[list[str]]:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(links_table(proxy))
    return [line.split() for line in capture.get().splitlines()]


def test_nothing_yet() -> None:
    header, *rest = shown(Proxy(["h:1"]))
    assert header[:3] == ["client", "server", "open"]
    assert rest == [["no", "faults"]]


def test_links_and_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy(["h:1"])
    proxy.delay(5, 1.5, client="c")
    proxy.limit(100).bytes = 12_345
    link = LinkStatus(client="c", server="s", address="h:1", open=2, cut=1, torn=2, held=9)
    link.faults = (1, 2)
    link.up.passed, link.down.passed, link.up.frozen = 9_999, 10_000, 7
    monkeypatch.setattr(proxy, "links", lambda: (link,))
    _, row, *faults = shown(proxy)
    assert row == ["c", "s", "2", "9999", "10k", "9", "7", "0", "3", "1", "2"]
    assert [" ".join(words) for words in faults] == [
        "1: delay 5 ms ± 1.5 ms c>* both 0 bytes, 0 connections",
        "2: limit 100 bytes/s *>* both 12k bytes, 0 connections",
    ]
