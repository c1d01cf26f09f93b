"""Targets that are no RocketMQ, are not there, or go away in the middle: one sentence, and never a hang or a green."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import Case, cases
from staticfire.harness.conformance.clause import contract
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.address import AddressSite
from staticfire.harness.conformance.sites.concurrent import run_beside
from staticfire.harness.conformance.sites.presence import find_brokers
from staticfire.harness.conformance.sites.simulated import SimulatedSite, run_in_world
from staticfire.harness.conformance.sites.site import OnResult, SiteFailed
from staticfire.harness.conformance.sites.suite import FLOOR, run_suite, why_not
from staticfire.harness.conformance.target_facts import TargetFacts
from staticfire.harness.conformance.wire import CannotConnect, connect
from staticfire.harness.conformance.wire_log import WireLog
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.runtime.env import Env

SERVER, PORT = "10.1.1.1", 9876


class Says(asyncio.Protocol):
    """A server that answers whatever comes with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answer)


class SaysToLines(Says):
    """The same to a line; anything else gets no answer."""

    def data_received(self, data: bytes) -> None:
        if b"\r\n" in data:
            self._transport.write(self._answer)


def sentence_about(make: Callable[[], asyncio.Protocol]) -> str:
    """Why the suite does not begin with this server as its name server; within a minute of virtual time."""
    world = World(1, trace_level=0)
    host, tester = world.add_host("server", SERVER), world.add_host("tester", "10.1.1.2")
    target = TargetFacts(name_servers=(f"{SERVER}:{PORT}",), prefix="conform")
    reasons: list[str] = []

    async def serve(_env: Env) -> None:
        server = await asyncio.get_running_loop().create_server(make, SERVER, PORT)
        await server.serve_forever()

    async def look(_env: Env) -> None:
        async with asyncio.timeout(60):
            await asyncio.sleep(1)
            with pytest.raises(SiteFailed) as failed:
                await find_brokers(target)
            reasons.append(str(failed.value))

    async def main() -> None:
        host.start("server", serve)
        status = await tester.start("tester", look).exit
        if status.error is not None:
            raise status.error

    world.run(main)
    return reasons[0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Says(b""), "did not answer request 106 in 10 s"),
        (lambda: Says(b"\x00\x00\x00\x08\x00\x00\x00\x04{]}?"), "closed the connection: it sent no frame"),
        (lambda: Says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "it seems to be an HTTP server"),
        (lambda: SaysToLines(b"HTTP/1.0 200 OK\r\n\r\n"), "it seems to be an HTTP server"),
        (lambda: SaysToLines(b"-ERR wrong number of arguments\r\n"), "a server of lines, such as Redis"),
        (lambda: Says(bytes(range(255, -1, -1)) * 40), "it sent no frame"),
        (lambda: Says(b"\x15\x03\x03\x00\x02\x02\x46"), "a server that speaks TLS alone"),
    ],
    ids=["hangs", "not JSON", "HTTP", "HTTP by lines", "Redis", "noise", "TLS"],
)  # fmt: skip
def test_another_product_is_named(make: Callable[[], asyncio.Protocol], words: str) -> None:
    sentence = sentence_about(make)

    assert words in sentence
    assert sentence.startswith(f"{SERVER}:{PORT} does not answer like a RocketMQ name server: ")
    assert "\n" not in sentence


class Vanishing:
    """Our cluster in the simulation, with cases that run beside each other; one of them ends the target."""

    is_virtual = True
    makes_clusters = True
    name = "vanishing"

    def __init__(self, end: Callable[[Bench], Awaitable[object]], at: str) -> None:
        self._end = end
        self._at = at
        self.virtual_s = 0.0

    def lacks(self, _need: object) -> None:
        return None

    def run(self, cases: Sequence[Case], on_result: OnResult) -> None:
        """All in one world: it is the trial of a case around them."""
        failed: list[SiteFailed] = []

        async def last_words(bench: Bench) -> None:
            await self._end(bench)
            await bench.broker()
            await (await bench.name_server()).ask(106)
            await bench.topic()

        async def all_of_them(bench: Bench) -> None:
            loop = asyncio.get_running_loop()
            begin_s = loop.time()
            try:
                await run_beside([instead(case) for case in cases], bench.target, on_result)
            except SiteFailed as error:
                failed.append(error)
            self.virtual_s = loop.time() - begin_s

        def instead(case: Case) -> Case:
            trial = last_words if case.clause.id == self._at else case.trial
            return Case(clause=case.clause, trial=trial, limit_s=60, is_slow=False, is_alone=True)

        whole = Case(
            clause=cases[0].clause, trial=all_of_them, limit_s=1e6, is_slow=False, is_alone=True
        )
        run_in_world(whole, SimulatedSite().campaign)
        if failed:
            raise failed[0]


def _each_node(of: str) -> Callable[[Bench], Awaitable[None]]:
    async def act(bench: Bench) -> None:
        processes = bench.controls().process
        for node in bench.target.nodes.values():
            await getattr(processes, of)(node)

    return act


async def _kill_the_brokers(bench: Bench) -> None:
    for address, node in bench.target.nodes.items():
        if address not in bench.target.name_servers:
            await bench.controls().process.kill(node)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (_each_node("kill"), "cannot connect to"),
        (_each_node("pause"), "did not answer request"),
        (_kill_the_brokers, "no master"),
    ],
    ids=["dies", "hangs", "brokers die"],
)
def test_a_target_that_goes_away_in_the_middle(
    end: Callable[[Bench], Awaitable[None]], words: str
) -> None:
    clauses = [contract()[f"RMQ-REM-{number:02}"] for number in (1, 2, 3, 4, 5, 6)]
    site = Vanishing(end, at="RMQ-REM-03")
    reported: list[CaseResult] = []

    result = run_suite(site, clauses, on_result=reported.append)

    outcomes = [one.outcome for one in result.results]
    assert outcomes == [Outcome.PASSED] * 2 + [Outcome.FAILED] + [Outcome.NOT_RUN] * 3
    assert [one.clause.id for one in reported] == [clause.id for clause in clauses]
    assert result.stopped.startswith("the target is gone since RMQ-REM-03: ")
    assert words in result.stopped
    assert {one.reason for one in result.results[3:]} == {result.stopped}
    assert result.broken
    assert site.virtual_s < 120


def test_a_target_that_goes_away_at_once_proves_nothing() -> None:
    class Absent(Vanishing):
        def run(self, cases: Sequence[Case], on_result: OnResult) -> None:
            raise SiteFailed("no server is there")

    result = run_suite(Absent(_each_node("kill"), at=""), list(contract().values()))

    assert result.stopped == "no server is there"
    assert {one.outcome for one in result.results} == {Outcome.NOT_RUN}
    assert (result.ran, result.floor, result.is_below_floor) == (0, FLOOR, True)


@pytest.mark.parametrize("address", ["nonsense", "host:99999", "", "a..b:80"])
def test_an_address_that_is_none_is_out_of_reach(address: str) -> None:
    async def look() -> None:
        await connect(address, WireLog(lambda: 0.0))

    with pytest.raises(CannotConnect):
        asyncio.run(look())


def test_cases_that_cut_power_come_last() -> None:
    tried: list[str] = []

    def noted(clause_id: str) -> Case:
        async def trial(_bench: Bench) -> None:
            tried.append(clause_id)

        found = cases()[clause_id]
        return replace(found, trial=trial)

    names = ["RMQ-SND-09", "RMQ-RCV-03", "RMQ-HA-09", "RMQ-RCV-04", "RMQ-HA-06", "RMQ-SND-01"]
    target = TargetFacts(name_servers=(f"{SERVER}:{PORT}",), prefix="conform")
    asyncio.run(run_beside([noted(name) for name in names], target, lambda _result: None))
    assert tried == [
        "RMQ-SND-01",
        "RMQ-HA-09",
        "RMQ-HA-06",
        "RMQ-SND-09",
        "RMQ-RCV-03",
        "RMQ-RCV-04",
    ]


def test_no_case_spoils_a_cluster_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AddressSite, "look", lambda _self: ())  # its brokers
    site = AddressSite(("127.0.0.1:9876",), prefix="conform")
    for case in cases().values():
        if case.spoils:
            assert why_not(case, site, slow=True)
