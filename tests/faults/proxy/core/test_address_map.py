"""The mapping of addresses to their substitutes, without a socket."""

from __future__ import annotations

import pytest

from staticfire.faults.proxy.core import frontends as frontends
from staticfire.faults.proxy.core.address_map import AddressMap, View
from staticfire.faults.proxy.core.frontends import COMMON_FRONTEND, Frontend, Listener, PortPlan
from staticfire.faults.proxy.core.ports import PortError
from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.faults.proxy.rocketmq.addresses import Address

HOST = "192.0.2.1"


class FakeSocket:
    def __init__(self, port: int) -> None:
        self.port = port

    def getsockname(self) -> tuple[str, int]:
        return HOST, self.port


class World:
    """A address map whose frontends listen on made-up ports: 50000, 50100, ... or where the plan says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first_port: int = 0) -> None:
        self.next_port = 50_000
        self.busy: set[int] = set()
        self.gates: list[tuple[Listener, int]] = []
        self.events: list[str] = []
        self.addresses = AddressMap(
            lambda name: Frontend(
                name,
                HOST,
                self.addresses.servers,
                PortPlan(first_port if name == COMMON_FRONTEND else 0),
                lambda listener, found: self.gates.append((listener, found.getsockname()[1])),
                self.events.append,
            ),
            (HOST,),
            self.events.append,
        )
        monkeypatch.setattr(frontends, "listen", self._listen)
        monkeypatch.setattr(frontends, "listen_anywhere", self._listen_anywhere)

    def _listen(self, host: str, ports: list[int]) -> list[FakeSocket]:
        if self.busy & set(ports):
            raise PortError(f"port {ports[0]} on {host} is in use")
        return [FakeSocket(port) for port in ports]

    def _listen_anywhere(self, host: str, shifts: tuple[int, ...]) -> list[FakeSocket]:
        if self.next_port == 0:
            raise PortError("no free ports")
        self.next_port += 100
        return self._listen(host, [self.next_port - 100 + shift for shift in shifts])

    def view(self, frontend: str = COMMON_FRONTEND) -> View:
        return View(self.addresses, self.addresses.frontend(frontend), HOST)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_each_door_has_a_listener_of_its_own_for_each_server(world: World) -> None:
    common, slave = world.view(), world.view("slave")
    assert common.broker("10.0.0.1:10911", "a-0") == f"{HOST}:50000"
    assert common.broker("10.0.0.2:10911", "b-0") == f"{HOST}:50100"
    assert slave.broker("10.0.0.1:10911") == f"{HOST}:50200"
    assert common.broker("10.0.0.1:10911") == f"{HOST}:50000"
    assert sorted(server.name for server in world.addresses.servers) == [
        "a-0",
        "a-0/ha",
        "b-0",
        "b-0/ha",
    ]


@pytest.mark.parametrize("met_by", ["broker", "ha"])
def test_all_ports_of_a_broker_are_where_they_are_looked_for(world: World, met_by: str) -> None:
    """Clients subtract 2 for the fast port, slaves 1 from the port for replication."""
    if met_by == "broker":
        assert world.view().broker("10.0.0.1:10911") == f"{HOST}:50000"
    else:
        assert world.view().ha("10.0.0.1:10912") == f"{HOST}:50001"
    assert [
        (listener.target.port, port, listener.server.kind) for listener, port in world.gates
    ] == [
        (10911, 50000, ServerKind.BROKER),
        (10909, 49998, ServerKind.BROKER),
        (10912, 50001, ServerKind.HA),
    ]


def test_an_address_of_the_proxy_is_translated_for_another_door(world: World) -> None:
    """A master that registered through the proxy is known to the name server by the proxy's address."""
    shown = world.view("master").registered_broker("10.0.0.1:10911", "a-0")
    assert shown == f"{HOST}:50000"
    assert world.view().broker(shown) == shown
    assert world.view("slave").broker(shown, "a-0") == f"{HOST}:50100"
    assert world.view("slave").broker(shown) == world.view("slave").broker("10.0.0.1:10911")
    assert sorted(server.name for server in world.addresses.servers) == ["a-0", "a-0/ha"]


@pytest.mark.parametrize("reported", ["early", "late"])
def test_replication_is_another_server(world: World, reported: str) -> None:
    view = world.view()
    view.ha("10.0.0.1:10912", "a-0" if reported == "early" else "")
    assert view.ha("10.0.0.1:10912") == view.registered_ha("10.0.0.1:10912")
    view.broker("10.0.0.1:10911", "a-0")
    server = world.addresses.servers.find(ServerKind.HA, Address("10.0.0.1", 10912))
    assert server is not None
    assert (server.name, server.kind) == ("a-0/ha", ServerKind.HA)
    assert server.names == ("a-0/ha", "10.0.0.1:10912")


@pytest.mark.parametrize("text", ["", "no address", "host:0"])
def test_what_is_no_address_stays(world: World, text: str) -> None:
    assert world.view().broker(text) == text


def test_store_hosts_of_brokers_that_were_met(world: World) -> None:
    view = world.view()
    real, other = b"\x0a\0\0\1" + b"\0\0\x2a\x9f", b"\x0a\0\0\2" + b"\0\0\x2a\x9f"
    assert view.store_host(real) is None
    view.broker("10.0.0.1:10911")
    assert view.store_host(real) == b"\xc0\0\2\1" + (50000).to_bytes(4, "big")
    assert view.store_host(real) == b"\xc0\0\2\1" + (50000).to_bytes(4, "big")
    assert view.store_host(other) is None


@pytest.mark.parametrize("host", ["proxy.example", "2001:db8::1"])
def test_a_store_host_has_no_place_for_another_kind_of_address(world: World, host: str) -> None:
    view = View(world.addresses, world.addresses.frontend(COMMON_FRONTEND), host)
    view.broker("10.0.0.1:10911")
    assert view.store_host(b"\x0a\0\0\1" + b"\0\0\x2a\x9f") is None


def test_given_ports_are_where_the_defaults_of_rocketmq_would_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, first_port=9876)
    frontend = world.addresses.frontend(COMMON_FRONTEND)
    for number in (1, 2):
        server = world.addresses.servers.meet(ServerKind.NAME_SERVER, Address("n", number))
        assert frontend.port_of(server) == 9875 + number
    view = world.view()
    assert view.broker("a:1") == f"{HOST}:10911"
    assert view.broker("b:1") == f"{HOST}:10921"
    assert view.ha("a:2") == f"{HOST}:10912"
    assert view.ha("c:2") == f"{HOST}:10932"
    assert world.view("slave").broker("a:1") == f"{HOST}:50000"


def test_a_port_that_is_taken_is_replaced_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, first_port=9876)
    world.busy = {10909}
    assert world.view().broker("a:1", "a-0") == f"{HOST}:50000"
    assert world.events == [f"port 10911 on {HOST} is in use; a-0 is at 50000 instead"]


def test_without_ports_a_broker_is_reported_as_past_the_proxy(world: World) -> None:
    world.next_port = 0
    assert world.view().broker("a:1", "a-0") == "a:1"
    assert world.events == ["a-0 is dialled past the proxy: no free ports"]
