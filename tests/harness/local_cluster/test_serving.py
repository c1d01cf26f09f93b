"""Readiness of a node for clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from staticfire.harness.local_cluster.serving import _is_settled
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole

MASTER = BrokerConfig(broker_name="a", listen_host="127.0.0.1")
SLAVE = BrokerConfig(broker_name="a", listen_host="127.0.0.1", broker_id=1, role=BrokerRole.SLAVE)


def broker(*, accepts: bool = True, replicas: int = 0, follows: bool = False) -> Any:
    ha = SimpleNamespace(replicas=replicas, is_following=follows)
    return SimpleNamespace(accepts_sends=lambda: accepts, ha=ha)


@pytest.mark.parametrize(
    ("config", "state", "peers", "settled"),
    [
        (MASTER, broker(), 0, True),
        (MASTER, broker(accepts=False), 0, False),
        (MASTER, broker(replicas=1), 2, False),
        (MASTER, broker(replicas=2), 2, True),
        (SLAVE, broker(), 1, False),
        (SLAVE, broker(follows=True), 1, True),
        (SLAVE, broker(), 0, True),
    ],
)
def test_is_settled(config: BrokerConfig, state: Any, peers: int, settled: bool) -> None:
    assert _is_settled(state, config, peers) is settled
