"""The pytest fixtures `rocketmq_cluster` and `rocketmq_cluster_options`, found through the entry point `pytest11`.

Nothing of the cluster is imported before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def rocketmq_cluster_options() -> dict[str, Any]:
    """Arguments of LocalCluster; override it in your conftest.py, such as `return {"masters": 2}`."""
    return {}


@pytest.fixture(scope="session")
def rocketmq_cluster(rocketmq_cluster_options: dict[str, Any]) -> Iterator[LocalCluster]:
    """A RocketMQ cluster for all tests of this process, on free ports: one for each worker of pytest-xdist.

    def test_send(rocketmq_cluster):
        producer.set_name_server_address(rocketmq_cluster.name_server_address)
    """
    from harness.local_cluster import LocalCluster

    with LocalCluster(**rocketmq_cluster_options) as cluster:
        yield cluster
