"""Real local clusters: start, stop, kill, kept files, and conflicts between two of them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from staticfire.harness.local_cluster import (
    ClusterError,
    ClusterOptionError,
    LocalCluster,
    NodeRefused,
    PortInUse,
)
from staticfire.harness.local_cluster.ports import free_ports
from staticfire.system_under_test.protocol.codes import SendStatus
from tests.support.sending import send

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[3]


def test_the_first_send_is_acknowledged() -> None:
    with LocalCluster() as cluster:
        [result] = send(cluster.name_servers, "Orders", b"hello")
        folder = cluster.folder
    assert result.status is SendStatus.SEND_OK
    assert not folder.exists()


def test_slaves_are_there_when_the_cluster_is_ready() -> None:
    """Otherwise the first sends would be answered with SLAVE_NOT_AVAILABLE."""
    with LocalCluster(masters=2, slaves=(2, 1), replication="sync", flush="sync") as cluster:
        results = send(cluster.name_servers, "Orders", *[b"x"] * 8)
        assert [node.name for node in cluster.brokers] == [
            "broker-a-0",
            "broker-b-0",
            "broker-a-1",
            "broker-a-2",
            "broker-b-1",
        ]
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert {result.queue.broker_name for result in results} == {"broker-a", "broker-b"}


def test_kept_data_come_back_at_the_same_addresses(tmp_path: Path) -> None:
    with LocalCluster(store=tmp_path) as cluster:
        send(cluster.name_servers, "Orders", *[b"1"] * 8)
        addresses = [node.address for node in cluster.nodes]
    with LocalCluster(store=tmp_path) as cluster:
        assert [node.address for node in cluster.nodes] == addresses
        results = send(cluster.name_servers, "Orders", *[b"2"] * 8)
    assert max(result.queue_offset for result in results) == 3  # 16 messages in 4 queues


def test_brokers_with_data_are_not_left_out(tmp_path: Path) -> None:
    with LocalCluster(masters=2, store=tmp_path):
        pass
    with (
        pytest.raises(ClusterOptionError, match="has data of broker-b-0"),
        LocalCluster(store=tmp_path),
    ):
        pass


@pytest.mark.parametrize("text", ["", "[]", '{"ports": 3}', '{"ports": {"a": "b"}}', "\0"])
def test_a_damaged_cluster_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(ClusterOptionError, match="is not what a cluster writes"):
        LocalCluster(store=tmp_path).start()


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    with LocalCluster(store=tmp_path):
        other = LocalCluster(store=tmp_path)
        with pytest.raises(
            PortInUse, match=r"port \d+ .* is in use; the store .* had it last time"
        ):
            other.start()
        (tmp_path / "cluster.json").unlink()
        with pytest.raises(NodeRefused, match=r"broker-a-0 failed: store .* is in use by another"):
            other.start()


def test_a_node_whose_log_cannot_be_written_says_why_it_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on a disk that is full when the cluster starts."""
    (tmp_path / "broker-a-0").write_text("a file where the folder of the store should be")
    monkeypatch.setattr(Path, "open", lambda *_args, **_keywords: open("/dev/full", "a"))  # noqa: SIM115
    cluster = LocalCluster(store=tmp_path)
    with pytest.raises(NodeRefused, match=r"broker-a-0 failed: store .* cannot be opened: "):
        cluster.start()


def test_a_busy_port_is_one_sentence() -> None:
    [port] = free_ports(1)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        cluster = LocalCluster(port=port)
        with pytest.raises(ClusterError, match=f"port {port} on 127.0.0.1 is in use"):
            cluster.start()


def test_a_free_port_that_is_taken_at_the_last_moment_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken, *others = free_ports(3)
    choices = iter([[taken, others[0]], others])
    monkeypatch.setattr(
        "staticfire.harness.local_cluster.cluster.free_ports", lambda _: next(choices)
    )
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", taken))
        holder.listen()
        with LocalCluster() as cluster:
            assert cluster.name_server_address == f"127.0.0.1:{others[0]}"


def test_many_clusters_beside_each_other() -> None:
    clusters = [LocalCluster() for _ in range(4)]
    threads = [threading.Thread(target=cluster.start) for cluster in clusters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    addresses = {node.address for cluster in clusters for node in cluster.nodes}
    for cluster in clusters:
        cluster.stop()
    assert len(addresses) == 8


@pytest.mark.slow
def test_one_node_is_restarted() -> None:
    with LocalCluster(slaves=1, replication="sync") as cluster:
        for name in ("broker-a-1", "broker-a-0", "name-server-1"):
            cluster.restart_node(name)
        [result] = send(cluster.name_servers, "Orders", b"x")
    assert result.status is SendStatus.SEND_OK


def test_a_stopped_slave_is_missed() -> None:
    with LocalCluster(slaves=1, replication="sync") as cluster:
        cluster.stop_node("broker-a-1")
        assert cluster.pid("broker-a-1") is None
        [result] = send(cluster.name_servers, "Orders", b"x")
    assert result.status is SendStatus.SLAVE_NOT_AVAILABLE


def test_refusals_of_a_running_cluster() -> None:
    with LocalCluster() as cluster:
        with pytest.raises(
            ClusterError, match="no node is named 'broker-z'; there are name-server-1"
        ):
            cluster.stop_node("broker-z")
        with pytest.raises(ClusterError, match="use processes=True"):
            cluster.kill_node("broker-a-0")
        with pytest.raises(ClusterError, match="broker-a-0 runs already"):
            cluster.start_node("broker-a-0")
        with pytest.raises(ClusterError, match="the cluster runs already"):
            cluster.start()
    with pytest.raises(ClusterError, match="does not run"):
        cluster.restart_node("broker-a-0")
    cluster.stop()


def test_a_cluster_may_be_started_again() -> None:
    cluster = LocalCluster()
    for _ in range(2):
        with cluster:
            assert send(cluster.name_servers, "Orders", b"x")


@pytest.mark.slow
def test_a_forgotten_cluster_ends_with_its_program(tmp_path: Path) -> None:
    code = "from harness.local_cluster import LocalCluster; LocalCluster(processes=True).start()"
    data, state = tmp_path / "data", tmp_path / "state"
    data.mkdir()
    environment = {"PYTHONPATH": str(ROOT), "TMPDIR": str(data), "STATICFIRE_STATE": str(state)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert [*data.iterdir(), *state.iterdir()] == []


def test_async_with() -> None:
    async def run() -> str:
        async with LocalCluster() as cluster:
            return cluster.name_server_address

    assert asyncio.run(run()).startswith("127.0.0.1:")


@pytest.mark.slow
def test_processes_are_killed_and_come_back() -> None:
    ended: list[str] = []
    seen = threading.Event()

    def on_end(reason: str) -> None:
        ended.append(reason)
        seen.set()

    with LocalCluster(processes=True, flush="sync", on_end=on_end) as cluster:
        send(cluster.name_servers, "Orders", b"x")
        cluster.kill_node("broker-a-0")
        assert cluster.pid("broker-a-0") is None
        cluster.start_node("broker-a-0")
        pid = cluster.pid("broker-a-0")
        assert pid is not None
        assert send(cluster.name_servers, "Orders", b"x")
        assert ended == []
        os.kill(pid, signal.SIGKILL)
        assert seen.wait(60)
    assert ended == ["broker-a-0 was killed by SIGKILL"]


@pytest.mark.slow
def test_a_process_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "broker-a-0" / "config").mkdir(parents=True)
    (tmp_path / "broker-a-0" / "config" / "topics.json").write_text("no json")
    cluster = LocalCluster(processes=True, store=tmp_path)
    with pytest.raises(NodeRefused, match=r"broker-a-0 failed: no usable metadata: .*topics\.json"):
        cluster.start()
