"""The launch configuration of an Apache RocketMQ; the tests need no distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.campaign.campaign import CampaignError
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.machines.machine import LaunchSpec, Machine
from staticfire.harness.machines.options import MachineOptionError, MachineOptions
from staticfire.harness.rocketmq.assembly.target_choice import check_target
from staticfire.harness.targets.apache import ApacheDistribution
from staticfire.harness.targets.interpreter import Interpreter
from staticfire.harness.targets.java import JAVA
from staticfire.harness.targets.own_cluster import Reach, directly
from staticfire.system_under_test.configuration import java_properties

GIVEN: dict[str, Any] = {
    "followers": (1,),
    "flush": "sync",
    "replication": "sync",
    "coordinators": 2,
    "faults": (),
    "log_file_bytes": 65536,
    "environment": "processes",
    "target": "apache",
}
CAMPAIGN = draw_campaign(1, GIVEN)
PORTS = {"ns-1": 11100, "broker-a-0": 11200}


@dataclass
class Somewhere:
    """As much of a place as a target wants to know."""

    node: str
    address: str
    folder: str


def target_of(campaign: Any = CAMPAIGN, reach: Reach = directly) -> ApacheDistribution:
    topology = campaign.topology()
    machines = {
        name: Somewhere(name, f"198.18.7.{number}", f"/places/{name}")
        for number, name in enumerate((*topology.servers, *topology.clients, "admin", "probe"), 2)
    }
    return ApacheDistribution(
        campaign,
        cast(dict[str, Machine], machines),
        home="/opt/rocketmq/",
        interpreter=Interpreter(python="python", code=("/code",)),
        ports=PORTS,
        reach=reach,
    )


def properties_of(launch_spec: LaunchSpec, path: str) -> dict[str, str]:
    return dict(java_properties.parse_properties(launch_spec.files[path].decode()))


def test_a_master_is_what_the_campaign_says() -> None:
    launch_spec = target_of().server_launch_spec("broker-a-0", ("ns-1", "ns-2"))
    found = properties_of(launch_spec, "/places/broker-a-0/broker.properties")
    wanted = {
        "brokerName": "broker-a",
        "brokerId": "0",
        "brokerRole": "SYNC_MASTER",
        "flushDiskType": "SYNC_FLUSH",
        "brokerIP1": "198.18.7.4",
        "listenPort": "11200",
        "haListenPort": "11201",
        "namesrvAddr": "198.18.7.2:11100;198.18.7.3:9876",
        "storePathRootDir": "/places/broker-a-0/store",
        "storePathCommitLog": "/places/broker-a-0/store/commitlog",
        "mappedFileSizeCommitLog": "65536",
    }
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("node", "given", "role", "flush"),
    [
        ("broker-a-1", {}, "SLAVE", "SYNC_FLUSH"),
        ("broker-a-0", {"replication": "async", "flush": "async"}, "ASYNC_MASTER", "ASYNC_FLUSH"),
        ("broker-a-0", {"replication": "none", "followers": (0,)}, "ASYNC_MASTER", "SYNC_FLUSH"),
    ],
)
def test_roles_follow_replication_and_flush(
    node: str, given: dict[str, Any], role: str, flush: str
) -> None:
    target = target_of(draw_campaign(1, {**GIVEN, **given}))
    launch_spec = target.server_launch_spec(node, ("ns-1",))
    found = properties_of(launch_spec, f"/places/{node}/broker.properties")
    assert (found["brokerRole"], found["flushDiskType"]) == (role, flush)


def test_java_is_started_without_scripts_in_the_folder_of_the_node() -> None:
    launch_spec = target_of().server_launch_spec("broker-a-1", ("ns-1",))
    argv = launch_spec.argv
    assert argv[: len(JAVA)] == JAVA
    assert argv[-5:] == (
        "-cp",
        "/opt/rocketmq/conf:/opt/rocketmq/lib/*",
        "org.apache.rocketmq.broker.BrokerStartup",
        "-c",
        "/places/broker-a-1/broker.properties",
    )
    assert "-Duser.home=/places/broker-a-1" in argv
    assert "-Drocketmq.home.dir=/places/broker-a-1" in argv
    logback = launch_spec.files["/places/broker-a-1/conf/logback_broker.xml"]
    assert b"System.err" in logback
    assert "--add-opens" in launch_spec.variables["JDK_JAVA_OPTIONS"]  # which Java 8 does not read
    assert not any(word.startswith("--add-opens") for word in argv)


def test_a_name_server_keeps_its_files_at_its_place() -> None:
    launch_spec = target_of().server_launch_spec("ns-1", ())
    assert "org.apache.rocketmq.namesrv.NamesrvStartup" in launch_spec.argv
    assert properties_of(launch_spec, "/places/ns-1/namesrv.properties") == {
        "listenPort": "11100",
        "kvConfigPath": "/places/ns-1/store/kvConfig.json",
    }
    assert "/places/ns-1/conf/logback_namesrv.xml" in launch_spec.files


def test_options_that_are_system_properties_become_arguments() -> None:
    given = (("rocketmq.broker.diskSpaceWarningLevelRatio", "0.99"), ("slaveTimeout", "1000"))
    target = target_of(draw_campaign(1, {**GIVEN, "broker_properties": given}))
    launch_spec = target.server_launch_spec("broker-a-0", ("ns-1",))
    found = properties_of(launch_spec, "/places/broker-a-0/broker.properties")
    assert "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99" in launch_spec.argv
    assert found["slaveTimeout"] == "1000"
    assert not any(name.startswith("rocketmq.") for name in found)


def test_folders_of_the_store_are_below_the_node() -> None:
    folders = "/store/commitlog,/store/commitlog-2,/elsewhere"
    given = (("storePathCommitLog", folders), ("messageDelayLevel", "/store/1s"))
    target = target_of(draw_campaign(1, {**GIVEN, "broker_properties": given}))
    found = properties_of(
        target.server_launch_spec("broker-a-0", ("ns-1",)), "/places/broker-a-0/broker.properties"
    )
    store = target.store_folder("broker-a-0")
    assert found["storePathCommitLog"] == f"{store}/commitlog,{store}/commitlog-2,/elsewhere"
    assert found["messageDelayLevel"] == "/store/1s"


def test_brokers_and_clients_reach_name_servers_by_what_stands_between() -> None:
    def reach(node: str, address: str, kind: ServerKind) -> str:
        return f"{node}/{address}"

    target = target_of(reach=reach)
    launch_spec = target.server_launch_spec("broker-a-0", ("ns-2",))
    found = properties_of(launch_spec, "/places/broker-a-0/broker.properties")
    assert found["namesrvAddr"] == "broker-a-0/198.18.7.3:9876"
    _, line = target.client_launch_spec("producer-1", ("ns-1",))
    assert line["name_servers"] == ("producer-1/198.18.7.2:11100",)
    assert target.server_address("broker-a-0") == "198.18.7.4:11200"
    assert target.store_folder("broker-a-0") == "/places/broker-a-0/store"


# --- refusals


def test_the_home_must_be_said() -> None:
    with pytest.raises(MachineOptionError, match="needs --home DIR"):
        check_target(CAMPAIGN, MachineOptions())


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("environment", "simulation", "processes, namespaces, docker, ssh with --target apache"),
        ("mode", "strict", "hardened, faithful"),
        ("policies", ("any",), "none with --target apache"),
        ("defect", "any", "none with --target apache"),
    ],
)
def test_what_another_product_cannot_be(option: str, value: Any, allowed: str) -> None:
    with pytest.raises(CampaignError, match=f"{option} is .*; allowed: {allowed}"):
        draw_campaign(1, {**GIVEN, option: value})


def test_another_product_is_judged_as_what_it_is() -> None:
    assert CAMPAIGN.mode == "faithful"
    assert all(not draw_campaign(seed, GIVEN).broker_properties for seed in range(10))
