"""Options of a local cluster: refusals, and listening addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from staticfire.harness.local_cluster import ClusterOptionError, LocalCluster
from staticfire.harness.local_cluster.layout import fixed_ports, make_nodes, node_names
from staticfire.harness.local_cluster.options import ClusterOptions
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.configuration.mode import Mode


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name_servers": 0}, "name servers is 0; allowed: 1 to 9"),
        ({"masters": 10}, "masters is 10; allowed: 1 to 9"),
        ({"slaves": -1}, "slaves is -1; allowed: 0 to 5"),
        ({"masters": 2, "slaves": (1, 1, 1)}, "slaves names 3 masters, but there are 2"),
        ({"slaves": ()}, "slaves names 0 masters"),
        ({"flush": "maybe"}, "flush is 'maybe'; allowed: sync, async"),
        ({"replication": "none"}, "replication is 'none'; allowed: sync, async"),
        ({"replication": "sync"}, "no slave to wait for"),
        ({"broker_properties": {"nope": "1"}}, "unknown property 'nope'; there are: "),
        (
            {"broker_properties": {"listenPort": "1"}},
            "the property listenPort cannot be given here: an option of its own sets it",
        ),
        ({"broker_properties": {"traceOn": "maybe"}}, "true and false are allowed"),
        (
            {"broker_properties": {"storePathCommitLog": "/a,/b"}},
            "the property storePathCommitLog='/a,/b' would give all brokers of the cluster the same folders",
        ),
        (
            {"broker_properties": {"readOnlyCommitLogStorePaths": "/b"}},
            "readOnlyCommitLogStorePaths='/b' would give",
        ),
        ({"port": 80}, "port is 80; allowed: 0 for free ports, or 1024 to 64499"),
        ({"port": 64500}, "port is 64500"),
        ({"masters": 9, "slaves": 5, "port": 64000}, "1024 to 63969"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterOptionError) as refusal:
        LocalCluster(**options)
    assert words in str(refusal.value)


def test_nodes_of_a_large_cluster() -> None:
    options = ClusterOptions(name_servers=2, masters=2, slaves=(2, 1), port=9876)
    ports = fixed_ports(options)
    assert node_names(options) == tuple(ports)
    assert ports == {
        "name-server-1": 9876,
        "name-server-2": 9877,
        "broker-a-0": 10911,
        "broker-b-0": 10921,
        "broker-a-1": 10931,
        "broker-a-2": 10941,
        "broker-b-1": 10951,
    }


def config_of(options: ClusterOptions, name: str, *, is_new: bool = True) -> BrokerConfig:
    nodes = make_nodes(options, fixed_ports(options), Path("/data"), is_new=is_new)
    config = next(node.config for node in nodes if node.name == name)
    assert isinstance(config, BrokerConfig)
    return config


def test_what_the_options_become() -> None:
    options = ClusterOptions(
        slaves=(1,), port=9876, flush="sync", replication="sync", faithful=True
    )
    master, slave = config_of(options, "broker-a-0"), config_of(options, "broker-a-1")
    assert (master.role, slave.role) == (BrokerRole.SYNC_MASTER, BrokerRole.SLAVE)
    assert slave.ha_master_address == "127.0.0.1:10912"
    assert master.sync_flush
    assert slave.sync_flush
    nodes = make_nodes(options, fixed_ports(options), Path("/data"), is_new=True)
    assert [node.config.mode for node in nodes] == [Mode.FAITHFUL] * 3
    assert master.store_path == "/data/broker-a-0"


def test_broker_properties() -> None:
    options = ClusterOptions(port=9876, broker_properties=(("autoCreateTopicEnable", "false"),))
    assert not config_of(options, "broker-a-0").auto_create_topics


def test_a_master_asks_its_slaves_only_if_they_may_have_something() -> None:
    options = ClusterOptions(slaves=(2,), port=9876)
    assert config_of(options, "broker-a-0").ha_peers == ()
    again = config_of(options, "broker-a-0", is_new=False)
    assert again.ha_peers == ("127.0.0.1:10922", "127.0.0.1:10932")
