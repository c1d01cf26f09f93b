"""The cluster of these tests: overrides a fixture of Staticfire's pytest plugin."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def rocketmq_cluster_options() -> dict[str, Any]:
    return {"masters": 1, "flush": "sync"}
