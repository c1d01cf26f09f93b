"""Short campaigns on real machines: judged valid, every fault proven, and nothing left behind."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.white_box.resources import TABLE_SLACK
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.external_cluster import take_cluster
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.real.external import cluster_watch
from staticfire.harness.environments.real.namespaces import tools_for
from staticfire.harness.local_cluster import LocalCluster
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.results.run_status import RunStatus
from staticfire.harness.runs.real_runner import carry_out, run_for_real
from staticfire.harness.state import VARIABLE
from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.groups import all_groups
from staticfire.system_under_test.admin.topics import topic_list
from staticfire.system_under_test.runtime.real_env import make_env
from tests.support.sample import sample_of
from tests.support.ssh_hosts import ssh_hosts

TOOLS = tools_for("ext4")

ROOT = Path(__file__).parent.parent.parent
LOAD_S = 8.0
UP_BOUND_S = 60.0

pytestmark = pytest.mark.real


def planned(
    number: int, kind: str, at_s: float, duration_s: float, *targets: str, **params: Any
) -> PlannedFault:
    return PlannedFault(
        fault_id=number, kind=kind, at_s=at_s, duration_s=duration_s, targets=targets, params=params
    )


KILL = planned(1, "kill", 1.0, 2.0, "broker-a-1")
PAUSE = planned(2, "pause", 4.5, 1.0, "broker-a-1")
POWER_CUT = planned(3, "power-cut", 1.0, 2.0, "broker-a-0")
CUT_OFF = planned(
    4, "partition-one-way", 5.0, 1.5, "broker-a-1", drop=[["broker-a-0", "broker-a-1"]]
)

# Fake deaths, restarts, and what is done to what a node sends or has stored; before them there is time for some acks.
OTHERS = (
    planned(1, "wiped-slave", 3.5, 0.5, "broker-a-1"),
    planned(2, "bandwidth", 2.0, 2.5, "broker-a-0", bits_per_s=200_000),
    planned(3, "name-server-black-hole", 2.0, 4.0, "ns-1"),
    planned(4, "broker-black-hole", 4.8, 2.9, "broker-a-1"),
    planned(5, "rolling-restart", 7.9, 8.0, "broker-a-1", "broker-a-0"),
)
KILLED_PRODUCER = planned(1, "client-crash", 3.0, 2.0, "producer-1")
DELAYED = planned(1, "network-latency", 1.0, 2.0, "broker-a-0", delay_ms=100.0)
GONE = planned(2, "broker-black-hole", 4.0, 3.0, "broker-a-1")
CPP = pytest.mark.skipif(
    importlib.util.find_spec("rocketmq") is None, reason="needs the extra cpp-client"
)
JAVASCRIPT_RUNS = [
    ("queue", planned(1, "client-crash", 2.0, 1.0, "consumer-1")),
    ("ordered", planned(1, "client-crash", 2.0, 1.0, "consumer-1")),
    ("retry", planned(1, "failing-listener", 1.0, 2.0, "consumer-1", share=0.5)),
]
ONE_WAY = [["producer-1", "broker-a-0"], ["producer-2", "broker-a-0"]]


def campaign_on(environment: str, *plan: PlannedFault) -> Campaign:
    """One master, one slave, everything synchronous."""
    given = {
        "environment": environment,
        "coordinators": 1,
        "followers": (1,),
        "flush": "sync",
        "replication": "sync",
        "time_s": LOAD_S,
        "producers": 2,
        "consumers": 1,
        "think_ms": 40.0,
        "faults": (),
        "acks_min": 5,  # a slave believes for 20 s that a master without power is only silent
        "log_file_bytes": 65536,
        "payload_bytes": (1000, 1400),
        "batch_share": 0.0,
        "one_way_share": 0.0,
        "async_share": 0.0,
        "illegal_share": 0.0,
        "broker_properties": (),
        "plan": plan,
    }
    return draw_campaign(1, given)


def run(environment: str, *plan: PlannedFault) -> RunResult:
    return run_for_real(campaign_on(environment, *plan))


def let_locks_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that end without unlocking keep their queues for a minute; the harness does not wait for that here."""
    monkeypatch.setitem(TABLE_SLACK, "queueLocks", 8)


def assert_valid(result: RunResult) -> None:
    verdict = result.verdict
    reported = [*verdict.below_floors, *verdict.findings(), *result.faults]
    reported += [op for op in result.ops if op.f == "node_exit"]
    broken = {one.checker for one in verdict.verdicts if one.valid is False}
    # Processes of librocketmq that start in one second on one machine may give two messages one id.
    is_of_client = result.campaign.client == "cpp" and broken == {"shared_ids"}
    assert verdict.valid is True or is_of_client, "\n".join(
        map(str, reported)
    )  # a text is shown whole
    assert [record.planned.kind for record in result.faults if not record.bitten] == []
    silent = [node.name for node in result.nodes if not node.log]
    assert not [name for name in silent if name.startswith("broker")]  # every broker logs its start


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journals of these runs; none may be left, for each names what was not removed."""
    folder = tmp_path / "state"
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


def left_in(state: Path) -> list[Path]:
    return list(state.iterdir()) if state.exists() else []


def test_processes(state: Path) -> None:
    assert_valid(run("processes", KILL, PAUSE))
    assert left_in(state) == []


@pytest.mark.needs_root(*TOOLS)
def test_namespaces(state: Path) -> None:
    result = run("namespaces", POWER_CUT, CUT_OFF)
    assert_valid(result)
    assert left_in(state) == []


@pytest.mark.needs_root(*TOOLS, "tc")
def test_namespaces_with_fake_deaths_restarts_and_a_slave_from_nothing(state: Path) -> None:
    assert_valid(run("namespaces", *OTHERS))
    assert left_in(state) == []


@pytest.mark.needs_root(*TOOLS)
def test_a_full_disk_refuses_with_code_14_loses_nothing_and_serves_again(state: Path) -> None:
    full = planned(1, "disk-full", 1.0, 5.0, "broker-a-0", free_bytes=0)
    result = run("namespaces", full)
    assert_valid(result)
    fault = result.faults[0]
    assert fault.healed_ns is not None
    refused = [op for op in result.ops if op.f == "send" and op.type == "fail"]
    assert refused
    assert all("code 14" in str(op.error) for op in refused)
    served = [
        op
        for op in result.ops
        if op.f == "send" and op.type == "ok" and op.time_ns > fault.healed_ns
    ]
    assert served
    assert left_in(state) == []


@pytest.mark.needs_docker
@pytest.mark.needs_root(*TOOLS)
def test_docker(state: Path) -> None:
    assert_valid(run("docker", POWER_CUT, CUT_OFF))
    assert left_in(state) == []


@pytest.mark.needs_ssh
@pytest.mark.needs_root(*TOOLS)
def test_ssh(state: Path) -> None:
    async def main() -> RunResult:
        async with ssh_hosts(4) as hosts:
            campaign = campaign_on("ssh", POWER_CUT, CUT_OFF)
            return await carry_out(campaign, machine_options=hosts.options)

    assert_valid(asyncio.run(main()))
    assert left_in(state) == []


@pytest.mark.needs_ssh
@pytest.mark.needs_root(*TOOLS)
def test_ssh_with_delays_and_a_host_that_is_gone(state: Path) -> None:
    """Without netem through a proxy on this machine, which a black hole must not let pass."""

    async def main() -> RunResult:
        async with ssh_hosts(4) as hosts:
            campaign = campaign_on("ssh", DELAYED, GONE)
            return await carry_out(campaign, machine_options=hosts.options)

    assert_valid(asyncio.run(main()))
    assert left_in(state) == []


@CPP
def test_processes_with_ordered_clients_of_the_cpp_library(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sharding key in its queue, and consumed in its order."""
    let_locks_stay(monkeypatch)
    campaign = replace(campaign_on("processes", KILLED_PRODUCER), client="cpp", workload="ordered")
    result = run_for_real(campaign)
    assert_valid(result)
    counts = {verdict.checker: verdict.counts for verdict in result.verdict.verdicts}
    assert counts["sharding_keys"]["sharding_keys"] > 1
    assert counts["orderly"]["consumed_in_order"] > 0
    assert left_in(state) == []


@pytest.mark.needs_docker
@pytest.mark.needs_root(*TOOLS)
@CPP
def test_docker_with_clients_of_the_cpp_library(state: Path) -> None:
    """Killed for real, in containers."""
    campaign = replace(campaign_on("docker", KILLED_PRODUCER), client="cpp")
    assert_valid(run_for_real(campaign))
    assert left_in(state) == []


@pytest.mark.needs_ssh
@pytest.mark.needs_root(*TOOLS)
@CPP
def test_ssh_with_clients_of_the_cpp_library(state: Path) -> None:
    async def main() -> RunResult:
        async with ssh_hosts(4) as hosts:
            campaign = replace(campaign_on("ssh", KILLED_PRODUCER), client="cpp")
            return await carry_out(campaign, machine_options=hosts.options)

    assert_valid(asyncio.run(main()))
    assert left_in(state) == []


@pytest.mark.needs_root(*TOOLS)
def test_what_a_killed_harness_leaves_is_cleaned(state: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "staticfire", "run", "--seed", "1", "--campaign", "default"]
    argv += ["--environment", "namespaces", "--faults", "none", "--runs", str(tmp_path / "runs")]
    output = subprocess.DEVNULL
    harness = subprocess.Popen(argv, cwd=ROOT, stdout=output, stderr=output)
    _wait_for_processes(state)
    harness.kill()
    harness.wait()
    identity = _identity(state)
    assert _processes_of(identity)
    clean = [sys.executable, "-m", "staticfire", "clean"]
    done = subprocess.run(clean, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert _processes_of(identity) == []
    assert left_in(state) == []
    assert (
        identity
        not in subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    )


def _identity(state: Path) -> str:
    (journal,) = state.iterdir()
    return journal.name.partition(".")[0]


def _wait_for_processes(state: Path) -> None:
    deadline = time.monotonic() + UP_BOUND_S
    while time.monotonic() < deadline:
        if left_in(state) and _processes_of(_identity(state)):
            return
        time.sleep(0.05)
    raise AssertionError("no node was started")


def _processes_of(identity: str) -> list[int]:
    mark = f"STATICFIRE_RUN={identity}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in variables:
            found.append(int(folder.name))
    return found


def test_an_external_cluster_is_broken_through_the_proxy_and_keeps_no_trace(state: Path) -> None:
    """All of the cluster but its name servers' addresses is found out."""
    with LocalCluster(name_servers=2, slaves=1, flush="sync", replication="sync") as cluster:
        before = names_in(cluster)
        options = MachineOptions(name_servers=tuple(cluster.name_servers))
        given: dict[str, Any] = {"environment": "address", "time_s": LOAD_S, "acks_min": 5}
        take_cluster(given, options)
        plan = (
            planned(1, "partition-one-way", 1.0, 1.5, "broker-a-0", drop=ONE_WAY),
            planned(2, "network-latency", 3.0, 1.5, "broker-a-0", delay_ms=100.0),
            planned(3, "client-crash", 5.0, 1.0, "producer-1"),
            planned(4, "offsets-cloned", 5.0, 1.0),
        )
        given |= {"producers": 2, "consumers": 1, "think_ms": 40.0, "faults": (), "plan": plan}
        result = run_for_real(draw_campaign(1, given), machine_options=options)
        assert_valid(result)
        assert names_in(cluster) == before
    assert left_in(state) == []


@pytest.mark.parametrize("program", ["tests/support/thin_client.py", "docs/minimal_client.py"])
def test_a_command_is_the_load_and_need_not_say_what_is_optional(program: str) -> None:
    campaign = replace(
        campaign_on("processes", planned(1, "client-crash", 2.0, 1.0, "consumer-1")),
        client=f"{sys.executable} {ROOT / program}",
        time_s=4.0,
    )
    result = run_for_real(campaign)
    assert_valid(result)
    assert {op.f for op in result.ops if op.node == "consumer-1"} <= {"open", "consume", "drain"}


@pytest.mark.needs_node
@pytest.mark.parametrize(("workload", "fault"), sample_of(JAVASCRIPT_RUNS, 1))
def test_a_client_in_javascript_is_the_load(
    workload: str, fault: PlannedFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_locks_stay(monkeypatch)
    campaign = replace(
        campaign_on("processes", fault),
        workload=workload,
        client=f"node {ROOT / 'docs/minimal_client.js'}",
        time_s=4.0,
    )
    result = run_for_real(campaign)
    assert_valid(result)
    sent_back = [op for op in result.ops if op.f == "send_back"]
    assert bool(sent_back) == (workload == "retry")


def test_a_cluster_that_goes_away_ends_the_run(
    state: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The run ends within seconds, and reports only that the cluster is gone."""
    monkeypatch.setattr(cluster_watch, "GONE_S", 1.0)
    monkeypatch.setattr(cluster_watch, "CHECK_INTERVAL_S", 0.2)
    with LocalCluster() as cluster:
        options = MachineOptions(name_servers=tuple(cluster.name_servers))
        given: dict[str, Any] = {"environment": "address", "time_s": 60.0, "acks_min": 1}
        take_cluster(given, options)
        given |= {"producers": 1, "consumers": 1, "think_ms": 40.0, "faults": ()}

        def stop_under_load(status: RunStatus) -> None:
            if status.acknowledged > 5 and status.nodes["broker-a-0"] == "up":
                cluster.stop()

        result = run_for_real(
            draw_campaign(1, given), machine_options=options, progress=stop_under_load
        )
    assert result.verdict.valid == "unknown"
    assert result.run_s < 30
    assert result.verdict.below_floors[0].startswith("the cluster is gone: no ")
    assert "; the history so far is judged" in capfd.readouterr().err
    assert left_in(state) == []


def names_in(cluster: LocalCluster) -> tuple[list[str], list[str]]:
    """Topics and groups."""

    async def ask() -> tuple[list[str], list[str]]:
        async with AdminClient(make_env("test"), cluster.name_servers) as admin:
            return await topic_list(admin), await all_groups(admin)

    return asyncio.run(ask())


# Runs our nodes on the files that were written for RocketMQ, which listens on all addresses of its machine.
STAND_IN = """#!/bin/sh
[ "$1" = -version ] && {{ echo 'openjdk version "17.0.1"' >&2; exit 0; }}
role=broker
for word; do case $word in *NamesrvStartup) role=name-server;; esac; file=$word; done
sed -i '1i bindAddress=0.0.0.0' "$file"
PYTHONPATH={root} exec {python} -m staticfire.system_under_test $role -c "$file"
"""


def test_what_is_written_for_apache_rocketmq_makes_a_cluster(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for Java: how RocketMQ itself fares takes a distribution."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(STAND_IN.format(root=ROOT, python=sys.executable))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    campaign = replace(campaign_on("processes", KILL), target="apache", mode="faithful")
    assert_valid(run_for_real(campaign, machine_options=MachineOptions(home=str(tmp_path))))
    assert left_in(state) == []
