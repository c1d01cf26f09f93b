"""Watching an external cluster: silent servers are shown, and it is gone once no server answers for a while."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.environments.real.external import cluster_watch
from staticfire.harness.environments.real.external.cluster_watch import ClusterWatch
from staticfire.system_under_test.admin.errors import AdminError

NS, A, B = "10.0.0.1:9876", "10.0.0.2:10911", "10.0.0.3:10911"
SERVERS = {
    "ns-1": (NS, ServerKind.NAME_SERVER),
    "broker-a-0": (A, ServerKind.BROKER),
    "broker-b-0": (B, ServerKind.BROKER),
}
REFUSED = AdminError("refused", 16)


class Answers:
    """What each address does when it is asked: answer, refuse or say nothing."""

    def __init__(self) -> None:
        self.errors: dict[str, AdminError] = {}

    async def ask(self, address: str, code: int) -> None:
        if address in self.errors:
            raise self.errors[address]

    def silence(self, *addresses: str) -> None:
        self.errors |= {address: AdminError(f"no answer from {address}") for address in addresses}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    found = Answers()

    class Asking:
        async def __aenter__(self) -> Answers:
            return found

        async def __aexit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(cluster_watch, "asking", lambda _names, timeout_s: Asking())
    monkeypatch.setattr(cluster_watch, "CHECK_INTERVAL_S", 0.001)
    monkeypatch.setattr(cluster_watch, "GONE_S", 0.005)
    return found


def watched(answers: Answers) -> tuple[str, dict[str, str]]:
    """What the watch says of the cluster ("" if it is there), and of its servers."""

    async def run() -> tuple[str, dict[str, str]]:
        watch = ClusterWatch(SERVERS)
        watch.start()
        done, _ = await asyncio.wait([watch.gone], timeout=0.05)
        await watch.stop()
        return (watch.gone.result() if done else ""), watch.states()

    return asyncio.run(run())


def test_it_is_gone_when_no_broker_answers(answers: Answers) -> None:
    answers.silence(A, B)
    gone, states = watched(answers)
    assert gone == (f"the cluster is gone: no broker ({A}, {B}) has answered for 0.005 s")
    assert states == {"ns-1": "up", "broker-a-0": "silent", "broker-b-0": "silent"}


def test_it_is_gone_when_no_name_server_answers(answers: Answers) -> None:
    answers.silence(NS)
    assert watched(answers)[0].startswith(
        f"the cluster is gone: no name server ({NS}) has answered"
    )


def test_one_silent_broker_is_shown_and_is_not_the_end(answers: Answers) -> None:
    answers.silence(A)
    assert watched(answers) == ("", {"ns-1": "up", "broker-a-0": "silent", "broker-b-0": "up"})


def test_a_refusal_is_an_answer(answers: Answers) -> None:
    answers.errors = {A: REFUSED, B: REFUSED, NS: REFUSED}
    assert watched(answers) == ("", dict.fromkeys(SERVERS, "up"))
