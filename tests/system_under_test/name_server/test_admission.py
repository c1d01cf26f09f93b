"""Admission of brokers: each option by itself, and over real loopback sockets."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.registration.name_server_calls import (
    NameServerCalls,
    NameServerRefused,
)
from staticfire.system_under_test.name_server.admission import Admission
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import NameServer
from staticfire.system_under_test.protocol.bodies import DataVersion, TopicConfigTable
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.runtime.real_env import make_env
from tests.system_under_test.remoting.manual_loop import MemoryLog

HOST = "10.0.0.1"
OPTIONS = {  # each allows the broker of `request`
    "register_hosts": ("10.0.0.0/24", "10.0.1.7"),
    "register_clusters": ("other", "c"),
    "register_brokers": ("a", "b"),
}


def admission(**options: tuple[str, ...]) -> tuple[Admission, MemoryLog]:
    log = MemoryLog()
    return Admission(NameServerConfig(listen_host="127.0.0.1", **options), log), log  # type: ignore[arg-type]


IDENTITY = {
    "brokerName": "a",
    "brokerAddr": f"{HOST}:10911",
    "clusterName": "c",
    "brokerId": "0",
}


def request(code: int = RequestCode.REGISTER_BROKER) -> RemotingCommand:
    return RemotingCommand.request(code, dict(IDENTITY))


def test_without_options_every_broker_may_register() -> None:
    assert not NameServerConfig(listen_host="127.0.0.1").restricts_brokers
    assert admission()[0].refuse(request(), "192.168.0.1") is None


@pytest.mark.parametrize("names", [[name] for name in OPTIONS] + [list(OPTIONS)])
def test_a_listed_broker_may_register(names: list[str]) -> None:
    guard, log = admission(**{name: OPTIONS[name] for name in names})
    assert guard.refuse(request(), HOST) is None
    assert log.events == []


@pytest.mark.parametrize(
    ("host", "others", "reason"),
    [
        ("10.9.0.1", {}, "registerAllowedAddresses does not list its connection '10.9.0.1'"),
        (
            HOST,
            {"brokerAddr": "10.9.0.1:10911"},
            "registerAllowedAddresses does not list its address '10.9.0.1:10911'",
        ),
        (
            HOST,
            {"brokerAddr": "broker:10911"},
            "registerAllowedAddresses does not list its address 'broker:10911'",
        ),
        (HOST, {"clusterName": "d"}, "registerAllowedClusters does not list its cluster 'd'"),
        (HOST, {"brokerName": "aa"}, "registerAllowedBrokers does not list its name 'aa'"),
        (HOST, {"brokerName": "x" * 999}, f"does not list its name '{'x' * 100}'"),
    ],
)
def test_another_broker_is_refused_and_logged_once(
    host: str, others: dict[str, str], reason: str
) -> None:
    guard, log = admission(**OPTIONS)
    for _ in range(3):
        answer = guard.refuse(
            RemotingCommand.request(RequestCode.REGISTER_BROKER, {**IDENTITY, **others}), host
        )
        assert answer is not None
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark is not None
        assert answer.remark.startswith("this broker may not register: ")
        assert answer.remark.endswith(reason)
    [(level, event, fields)] = log.events
    assert (level, event, fields["peer"]) == ("warning", "broker was refused", host)


@pytest.mark.parametrize("code", [RequestCode.UNREGISTER_BROKER, RequestCode.QUERY_DATA_VERSION])
def test_a_refused_broker_neither_removes_nor_keeps_one(code: int) -> None:
    answer = admission(**OPTIONS)[0].refuse(request(code), "10.9.0.1")
    assert answer is not None
    assert answer.code == ResponseCode.NO_PERMISSION


def test_other_requests_are_not_those_of_brokers() -> None:
    route = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert admission(**OPTIONS)[0].refuse(route, "10.9.0.1") is None


def test_an_address_without_a_port_is_an_error() -> None:
    foreign = RemotingCommand.request(RequestCode.REGISTER_BROKER, {**IDENTITY, "brokerAddr": "A"})
    with pytest.raises(ValueError, match="address 'A' is not host:port"):
        admission(**OPTIONS)[0].refuse(foreign, HOST)


async def register(env: Env, config: NameServerConfig) -> list[str]:
    """The brokers that the name server knows after a broker on loopback has tried. Raises NameServerRefused."""
    server, client = NameServer(env, config), RemotingClient(env)
    await server.start()
    broker = BrokerConfig(broker_name="a", listen_host="127.0.0.1", cluster_name="c")
    calls = NameServerCalls(broker, client, env.log)
    table = TopicConfigTable(topics={}, data_version=DataVersion())
    try:
        await calls.register(server.address, table)
        return sorted(server.routes.cluster_info().to_json()["brokerAddrTable"])
    finally:
        await client.close()
        await server.stop()


def real_config(hosts: str) -> NameServerConfig:
    return NameServerConfig(listen_host="127.0.0.1", listen_port=0, register_hosts=(hosts,))


def test_a_listed_broker_registers_over_a_socket() -> None:
    names = asyncio.run(register(make_env("name-server"), real_config("127.0.0.1")))
    assert names == ["a"]


def test_another_broker_is_refused_over_a_socket() -> None:
    with pytest.raises(
        NameServerRefused, match="code 16: this broker may not register: registerAllowed"
    ):
        asyncio.run(register(make_env("name-server"), real_config("10.0.0.0/8")))
