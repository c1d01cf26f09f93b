"""The fixture `rocketmq_cluster` in somebody else's project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TESTS = """
import socket

def test_reachable(rocketmq_cluster):
    host, port = rocketmq_cluster.name_server_address.split(":")
    socket.create_connection((host, int(port))).close()

def test_the_same_again(rocketmq_cluster):
    assert len(rocketmq_cluster.brokers) == 3
"""
CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def rocketmq_cluster_options():
    return {"masters": 2, "slaves": (1, 0)}
"""


# The plugin itself, whether or not this Python has it installed as an entry point.
PLUGIN = ("-p", "no:rocketmq", "-p", "harness.pytest_plugin")


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        *PLUGIN,
        *arguments,
        str(folder),
    ]
    return subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.real
@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_project_uses_the_fixture(workers: list[str], tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(TESTS)
    done = run_pytest(tmp_path, "-q", *workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_plugin_costs_nothing_before_it_is_used() -> None:
    code = (
        "import sys, harness.pytest_plugin;"
        "sys.exit(any(name.startswith(('system_under_test', 'harness.local')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
