"""The determinism lint: each rule finds its sample, and accepts the deterministic alternative."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.harness.simulation.lint.lint import check_folder, check_source

BAD = [
    ("real-world", "import time"),
    ("real-world", "from os import path"),
    ("real-world", "import concurrent.futures"),
    ("real-world", "import random\nx = random.random()"),
    ("real-world", "from random import choice"),
    ("real-world", "f = open('x')"),
    ("real-world", "import datetime\nx = datetime.datetime.now()"),
    ("real-world", "from datetime import datetime\nx = datetime.utcnow()"),
    ("address", "x = id(object())"),
    ("address", "x = hash('a') % 4"),
    ("inexact-math", "import math\nx = math.log(2)"),
    ("inexact-math", "from math import exp"),
    ("unordered", "import asyncio\nasyncio.wait([])"),
    ("unordered", "from asyncio import as_completed"),
    ("finalizer", "class A:\n    def __del__(self): pass"),
    ("async-generator", "async def f():\n    yield 1"),
    ("dropped-task", "import asyncio\nasyncio.create_task(f())"),
    ("dropped-task", "def f(loop):\n    loop.create_task(g())"),
    ("swallowed-cancel", "try:\n    f()\nexcept:\n    pass"),
    ("swallowed-cancel", "try:\n    f()\nexcept BaseException:\n    pass"),
    ("swallowed-cancel", "try:\n    f()\nexcept (OSError, asyncio.CancelledError):\n    pass"),
    ("interpreter", "await_ = asyncio.gather(*tasks, return_exceptions=True)"),
    ("swallowed-cancel", "with suppress(asyncio.CancelledError):\n    f()"),
    ("shared-state", "cache = {}"),
    ("shared-state", "class A:\n    names: list[str] = []"),
    ("shared-state", "TABLE = {}\ndef f():\n    TABLE['a'] = 1"),
    ("shared-state", "TABLE = []\ndef f():\n    TABLE.append(1)"),
    ("shared-state", "def f():\n    global x\n    x = 1"),
    ("set-order", "for x in {1, 2}:\n    f(x)"),
    ("set-order", "def f(names: set[str]):\n    return [name for name in names]"),
    ("set-order", "def f(names: frozenset[str] | None):\n    return list(names)"),
    ("set-order", "def f():\n    names = set[str]()\n    return ','.join(names)"),
    ("set-order", "def f():\n    names = {1}\n    return names.pop()"),
    ("set-order", "def f(a: set[int], b):\n    for x in a - b:\n        g(x)"),
    ("set-order", "def f(a, b):\n    for x in a.keys() - b.keys():\n        g(x)"),
    ("set-order", "def f():\n    g(*{1, 2})"),
    (
        "set-order",
        "class A:\n    def __init__(self):\n        self.names: set[str] = set()\n"
        "    def f(self):\n        for name in self.names:\n            g(name)",
    ),
]

GOOD = [
    "from random import Random\nx = Random(1).random()",
    "import math\nx = math.sqrt(2) + math.floor(1.5)",
    "def f(random):\n    return random.random()",
    "async def f():\n    task = asyncio.create_task(g())\n    await task",
    "try:\n    f()\nexcept asyncio.CancelledError:\n    g()\n    raise",
    "TABLE = {'a': 1}\ndef f():\n    return TABLE['a']",
    "__all__ = ['a']",
    "def f(names: set[str]):\n    return sorted(names), len(names), 'a' in names",
    "def f(names: set[str]):\n    return any(name == 'a' for name in names)",
    "def f(names: set[str]):\n    for name in sorted(names):\n        g(name)",
    "def f(names: set[str]):\n    return {name.upper() for name in names}",
    "def f():\n    items = [1]\n    return items.pop()",
    "def g(names: set[str]):\n    pass\ndef f(names: list[str]):\n    return list(names)",
]


@pytest.mark.parametrize(("rule", "source"), BAD)
def test_finds(rule: str, source: str) -> None:
    assert rule in [hit.rule for hit in check_source(source, "sample.py")]


@pytest.mark.parametrize("source", GOOD)
def test_lets_pass(source: str) -> None:
    assert check_source(source, "sample.py") == []


def test_names_path_line_and_rule() -> None:
    (hit,) = check_source("x = 1\nimport time", "store/sample.py")
    assert str(hit) == "store/sample.py:2: real-world: module time"


def test_exempts_rules_file_by_file(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("import time\nx = id(1)\n")
    exempt = {"a.py": frozenset({"real-world"}), "b.py": frozenset({"*"})}
    hits = [(hit.path, hit.rule) for hit in check_folder(tmp_path, exempt)]
    assert hits == [("a.py", "address"), ("c.py", "real-world"), ("c.py", "address")]
