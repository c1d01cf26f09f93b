"""Launch files and arguments of our own nodes on real machines: they read back as the same configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.clients.configuration import Configuration, consumer_config, producer_config
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.machines.machine import LaunchSpec, Machine
from staticfire.harness.targets.own_cluster import OwnCluster
from staticfire.harness.targets.own_processes import OwnProcesses
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.configuration import config as node_config
from staticfire.system_under_test.name_server.config import NameServerConfig

CAMPAIGN = draw_campaign(
    1, {"followers": (1,), "flush": "sync", "replication": "sync", "coordinators": 2, "faults": ()}
)


@dataclass
class Somewhere:
    """As much of a place as a target wants to know."""

    node: str
    address: str
    folder: str


@pytest.fixture
def machines() -> dict[str, Somewhere]:
    topology = CAMPAIGN.topology()
    names = (*topology.servers, *topology.clients, "admin", "probe")
    return {
        name: Somewhere(name, f"198.18.7.{number}", f"/places/{name}")
        for number, name in enumerate(names, 2)
    }


@pytest.fixture
def target(machines: dict[str, Somewhere]) -> OwnProcesses:
    return OwnProcesses(
        CAMPAIGN, cast(dict[str, Machine], machines), python="python", code=("/code",)
    )


def fields_of(file: bytes, known: dict[str, node_config.Property]) -> dict[str, Any]:
    settings = node_config.read_settings(file.decode(), known)
    assert settings.unknown == ()
    return settings.fields


def as_read(client: tuple[LaunchSpec, Configuration]) -> tuple[LaunchSpec, Configuration]:
    """What a client reads: its first line is JSON."""
    launch_spec, line = client
    return launch_spec, orjson.loads(orjson.dumps(line))


@pytest.mark.parametrize("node", ["broker-a-0", "broker-a-1"])
def test_a_broker_reads_the_very_configuration_of_the_simulation(
    target: OwnProcesses, machines: dict[str, Somewhere], node: str
) -> None:
    launch_spec = target.server_launch_spec(node, CAMPAIGN.topology().coordinators)
    path = f"/places/{node}/broker.properties"
    command = ("python", "-P", "-m", "staticfire.system_under_test", "broker", "-c", path)
    assert launch_spec.argv == (*command, "--tls", "disabled")
    assert launch_spec.variables["PYTHONPATH"] == "/code"
    fields = fields_of(launch_spec.files[path], node_config.BROKER_PROPERTIES)
    cluster = OwnCluster(
        CAMPAIGN,
        {name: machine.address for name, machine in machines.items()},
        {name: f"{machine.folder}/store" for name, machine in machines.items()},
    )
    wanted = cluster.broker_config(
        CAMPAIGN.topology().replica(node), CAMPAIGN.topology().coordinators
    )
    role = BrokerRole(fields.pop("role", BrokerConfig(broker_name="x", listen_host="y").role))
    mode = fields.pop("mode", wanted.mode)
    assert replace(wanted, **fields, role=role, mode=mode) == wanted
    assert fields["name_servers"] == ("198.18.7.2:9876", "198.18.7.3:9876")
    assert fields["store_path"] == f"/places/{node}/store" == target.store_folder(node)


def test_nodes_get_the_server_addresses_of_the_machine_provider(
    machines: dict[str, Somewhere],
) -> None:
    def reach(node: str, address: str, kind: ServerKind) -> str:
        asked.append((node, address, kind.value))
        return f"127.0.0.1:{5000 + len(asked)}"

    asked: list[tuple[str, str, str]] = []
    target = OwnProcesses(
        CAMPAIGN, cast(dict[str, Machine], machines), python="python", code=(), reach=reach
    )
    launch_spec = target.server_launch_spec("broker-a-0", ("ns-1",))
    (file,) = launch_spec.files.values()
    fields = fields_of(file, node_config.BROKER_PROPERTIES)
    assert asked == [
        ("broker-a-0", "198.18.7.2:9876", "name-servers"),
        ("broker-a-0", f"{machines['broker-a-1'].address}:10912", "ha"),
    ]
    assert (fields["name_servers"], fields["ha_peers"]) == (
        ("127.0.0.1:5001",),
        ("127.0.0.1:5002",),
    )
    _, line = as_read(target.client_launch_spec("producer-1", ("ns-2",)))
    assert producer_config(line).name_servers == ("127.0.0.1:5003",)
    assert target.server_address("broker-a-0") == f"{machines['broker-a-0'].address}:10911"


def test_a_name_server_keeps_its_files_at_its_place(target: OwnProcesses) -> None:
    launch_spec = target.server_launch_spec("ns-1", ())
    (file,) = launch_spec.files.values()
    fields = fields_of(file, node_config.NAME_SERVER_PROPERTIES)
    config = NameServerConfig(**fields)
    assert (config.listen_host, config.listen_port) == ("198.18.7.2", 9876)
    assert Path(config.kv_config_path).is_relative_to("/places/ns-1/store")


def test_the_first_line_of_a_client_holds_its_identity(target: OwnProcesses) -> None:
    launch_spec, line = as_read(target.client_launch_spec("producer-1", ("ns-2",)))
    assert launch_spec.argv == ("python", "-P", "-m", "staticfire.harness.clients", "producer")
    assert producer_config(line).name_servers == ("198.18.7.3:9876",)
    launch_spec, line = as_read(target.client_launch_spec("consumer-1", ("ns-1",)))
    assert launch_spec.argv[-1] == "consumer"
    config, _ = consumer_config(line)
    assert (config.topic, config.group) == (CAMPAIGN.topic, CAMPAIGN.group)
    launch_spec, line = as_read(target.client_launch_spec("admin", ()))
    assert (launch_spec.argv[-1], line) == ("admin", {"node": "admin"})
    assert target.client_launch_spec("probe", ())[0].argv[-1] == "producer"


def test_the_other_client_is_that_of_producers_and_consumers_alone(
    machines: dict[str, Somewhere],
) -> None:
    campaign = replace(CAMPAIGN, client="cpp", environment="processes")
    target = OwnProcesses(campaign, cast(dict[str, Machine], machines), python="python", code=())
    ours = "staticfire.harness.clients"
    modules = {"producer-1": f"{ours}.cpp.client", "consumer-1": f"{ours}.cpp.client"}
    for node, module in {**modules, "admin": ours, "probe": ours}.items():
        launch_spec, line = as_read(target.client_launch_spec(node, ["ns-1"]))
        assert launch_spec.argv[-2] == module
        assert ("log_folder" in line) == (node in modules)
        assert not node.startswith("c") or line["log_folder"] == f"/places/{node}/librocketmq"


def test_a_command_is_the_client_of_producers_and_consumers_alone(
    machines: dict[str, Somewhere],
) -> None:
    campaign = replace(CAMPAIGN, client="node 'my client.js' -v", environment="processes")
    target = OwnProcesses(
        campaign, cast(dict[str, Machine], machines), python="python", code=("/x",)
    )
    for node, role in {"producer-1": "producer", "consumer-1": "consumer"}.items():
        launch_spec, line = as_read(target.client_launch_spec(node, ["ns-1"]))
        assert launch_spec.argv == ("node", "my client.js", "-v", role)
        assert dict(launch_spec.variables) == {}
        assert line["client_id"].endswith(f"@{node}")
    for node in ("admin", "probe"):
        assert target.client_launch_spec(node, ["ns-1"])[0].argv[-2] == "staticfire.harness.clients"


def test_folders_of_the_store_are_below_the_node(machines: dict[str, Somewhere]) -> None:
    given = (("storePathCommitLog", "/store/commitlog,/store/commitlog-2"),)
    target = OwnProcesses(
        replace(CAMPAIGN, broker_properties=given),
        cast(dict[str, Machine], machines),
        python="python",
        code=("/code",),
    )
    launch_spec = target.server_launch_spec("broker-a-0", CAMPAIGN.topology().coordinators)
    file = launch_spec.files["/places/broker-a-0/broker.properties"]
    store = target.store_folder("broker-a-0")
    found = fields_of(file, node_config.BROKER_PROPERTIES)
    assert found["commit_log_path"] == f"{store}/commitlog,{store}/commitlog-2"
