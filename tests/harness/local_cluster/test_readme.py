"""The examples of an embedded cluster in the pages run unchanged, and docs/admin.md lists every command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.harness.cli.admin.commands import admin
from tests.harness.plugin.test_pytest_plugin import PLUGIN

ROOT = Path(__file__).parents[3]
PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/embedded-cluster.md")
}


def block(page: str, words: str) -> str:
    """The one Python example of a page that has these words."""
    [example] = [
        found
        for found in re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL)
        if words in found
    ]
    return str(example)


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("page", PAGES)
def test_the_context_manager(page: str, tmp_path: Path) -> None:
    done = run(tmp_path, "-c", block(page, "from staticfire import LocalCluster"))
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(
        r"name servers 127\.0\.0\.1:\d+\nbrokers \[('127\.0\.0\.1:\d+'(, )?){4}\]\n$", done.stdout
    )


@pytest.mark.slow
@pytest.mark.real
def test_the_fixture(tmp_path: Path) -> None:
    example = block("docs/embedded-cluster.md", "rocketmq_cluster")
    (tmp_path / "test_example.py").write_text(example)
    done = run(tmp_path, "-m", "pytest", "-q", *PLUGIN, tmp_path)
    assert done.returncode == 0, done.stdout


def test_every_command_of_admin_is_in_the_table() -> None:
    page = (ROOT / "docs" / "admin.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert sorted(re.findall(r"`(\w+)`", "\n".join(rows))) == sorted(admin.commands)
