"""The example of docs/proxy.md runs as it stands there, and its lines of JSON are understood."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.faults.proxy import Proxy
from staticfire.harness.cli.proxy.requests import answer

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "proxy.md").read_text(encoding="utf-8")


@pytest.mark.real
def test_the_example() -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(
        r"for clients 127\.0\.0\.1:\d+\nfor one of them 127\.0\.0\.1:\d+\nhas it bitten\? False",
        done.stdout,
    )


@pytest.mark.real
def test_the_lines() -> None:
    lines = re.findall(r'`?(\{"f": .*?\})', PAGE)
    assert len(lines) > 6

    async def run() -> None:
        async with Proxy(["h:1"]) as proxy:
            for line in lines:
                assert answer(proxy, line.encode())["ok"], json.loads(line)

    asyncio.run(run())
