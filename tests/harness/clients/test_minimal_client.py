"""The example client of the documentation ends as the protocol demands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[3] / "docs" / "minimal_client.py"
CONFIG = {"name_servers": ["127.0.0.1:1"], "group": "g", "topic": "T", "client_id": "c"}


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_sigterm_ends_it_with_status_0(role: str) -> None:
    """While its other thread still waits for a line of the harness."""
    with subprocess.Popen(
        [sys.executable, CLIENT, role],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        assert client.stderr is not None
        client.stdin.write(json.dumps(CONFIG) + "\n")
        client.stdin.flush()
        assert json.loads(client.stdout.readline())["emit"] == "open"
        client.terminate()
        assert client.wait(timeout=20) == 0
        assert client.stderr.read() == ""
