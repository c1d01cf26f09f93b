"""Options changed while a node runs: kept for its next start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from staticfire.harness.local_cluster import LocalCluster
from staticfire.harness.local_cluster.changed_options import with_changed_options
from staticfire.system_under_test.admin import AdminClient
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.configuration.java_properties import parse_properties
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.runtime.real_env import make_env


def config(path: Path, text: str | None) -> BrokerConfig:
    if text is not None:
        path.write_text(text)
    return BrokerConfig(broker_name="a", listen_host="127.0.0.1", changes_file=str(path))


def test_what_was_changed_counts_and_what_the_layout_decides_stays(tmp_path: Path) -> None:
    free = "traceOn=false\nflushDiskType=SYNC_FLUSH\nbrokerRole=SYNC_MASTER\n"
    fixed = "brokerName=b\nlistenPort=1\nmode=faithful\n"
    before = config(tmp_path / "changed", free + fixed)
    after = with_changed_options(before)
    assert (after.trace_on, after.sync_flush) == (False, True)
    assert after.role is BrokerRole.SYNC_MASTER
    assert (after.broker_name, after.listen_port, after.mode) == ("a", 10911, before.mode)
    assert before.trace_on


def test_without_a_file_it_is_a_copy(tmp_path: Path) -> None:
    before = config(tmp_path / "changed", None)
    after = with_changed_options(before)
    assert after == before
    assert after is not before


def test_an_option_of_a_name_server(tmp_path: Path) -> None:
    (tmp_path / "namesrv").write_text("orderMessageEnable=true\nlistenPort=1\nkvConfigPath=/x\n")
    before = NameServerConfig(listen_host="127.0.0.1", config_path=str(tmp_path / "namesrv"))
    after = with_changed_options(before)
    assert after.order_message_enable
    assert (after.listen_port, after.kv_config_path) == (9876, "/namesrv/kvConfig.json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("traceOn=perhaps", "traceOn is 'perhaps', but true and false are allowed"),
        ("brokerRole=SLAVE", "a slave needs an id above 0"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"changed, the options changed last time, .* {why}"):
        with_changed_options(config(tmp_path / "changed", text))


def ask(address: str, code: RequestCode, body: str = "") -> dict[str, str]:
    async def run() -> bytes:
        async with AdminClient(make_env("admin"), []) as admin:
            return (await admin.ask(address, code, body=body.encode())).body

    return parse_properties(asyncio.run(run()).decode())


@pytest.mark.slow
@pytest.mark.real
def test_changed_options_survive_a_restart_of_the_node_and_of_the_cluster(tmp_path: Path) -> None:
    with LocalCluster(store=tmp_path) as cluster:
        [name_server], [broker] = cluster.name_servers, cluster.brokers
        ask(broker.address, RequestCode.UPDATE_BROKER_CONFIG, "regionId=there\nmaxIndexNum=4000")
        ask(name_server, RequestCode.UPDATE_NAMESRV_CONFIG, "orderMessageEnable=true")
        cluster.restart_node(broker.name)
        reported = ask(broker.address, RequestCode.GET_BROKER_CONFIG)
        assert (reported["regionId"], reported["maxIndexNum"]) == ("there", "4000")
        ask(broker.address, RequestCode.UPDATE_BROKER_CONFIG, "flushDiskType=SYNC_FLUSH")
    with LocalCluster(store=tmp_path, processes=True) as cluster:
        [name_server], [broker] = cluster.name_servers, cluster.brokers
        reported = ask(broker.address, RequestCode.GET_BROKER_CONFIG)
        assert (reported["regionId"], reported["flushDiskType"]) == ("there", "SYNC_FLUSH")
        assert ask(name_server, RequestCode.GET_NAMESRV_CONFIG)["orderMessageEnable"] == "true"
