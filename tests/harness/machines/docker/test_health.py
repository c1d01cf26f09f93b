"""The health check of a container: healthy if it answers, unhealthy if it is absent or silent."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from staticfire.harness.local_cluster import LocalCluster
from staticfire.harness.machines.docker.health import health_check
from staticfire.harness.machines.machine import HealthCheck
from staticfire.harness.targets.own_cluster import BROKER_QUESTION, NAME_SERVER_QUESTION


def is_well(address: str, question: int) -> bool:
    check = health_check(sys.executable, HealthCheck(address=address, question=question))
    command, *argv = check["test"]
    assert command == "CMD"
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


@pytest.mark.real
def test_servers_that_answer_are_well() -> None:
    with LocalCluster() as cluster:
        assert is_well(cluster.name_servers[0], NAME_SERVER_QUESTION)
        assert is_well(cluster.brokers[0].address, BROKER_QUESTION)


@pytest.mark.real
def test_who_closes_or_is_not_there_is_ill() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        server.settimeout(5)
        address = f"{host}:{port}"
        check = health_check(sys.executable, HealthCheck(address=address, question=1))
        with subprocess.Popen(check["test"][1:], stderr=subprocess.DEVNULL) as process:
            server.accept()[0].close()
            assert process.wait() != 0
    assert not is_well(address, 1)
