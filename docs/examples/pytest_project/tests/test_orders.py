"""Tests that need a RocketMQ: one that talks to it, one that breaks it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

ADMIN = [sys.executable, "-m", "staticfire", "admin"]


def admin(name_servers: str, *arguments: str) -> Any:
    """One command of `staticfire admin`; its answer."""
    command = [*ADMIN, arguments[0], "-n", name_servers, *arguments[1:], "--json"]
    return json.loads(subprocess.check_output(command))


def test_an_order_is_stored(rocketmq_cluster: Any) -> None:
    address = rocketmq_cluster.name_server_address
    answer = admin(address, "sendMessage", "-t", "Orders", "-p", "hello", "-k", "order-17")
    assert "SEND_OK" in json.dumps(answer)
    assert "order-17" in json.dumps(
        admin(address, "queryMsgByKey", "-t", "Orders", "-k", "order-17")
    )


@pytest.mark.campaign(
    seed=7, faults=("kill",), time_s=8.0, masters=1, flush="sync", replication="none"
)
def test_no_order_is_lost_when_brokers_die(campaign_result: Any) -> None:
    assert campaign_result.verdict.counts["acked"] > 50
    assert "lost" not in campaign_result.verdict.violations()
