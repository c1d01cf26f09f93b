"""Clients under test as processes: ours keeps the cheap clauses, and one that is no client is one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from staticfire.harness.cli import status_of
from staticfire.harness.cli.conform.client_option import client_under_test
from staticfire.harness.cli.status import BadInput
from staticfire.harness.conformance import client as clients
from staticfire.harness.conformance.clause import Level, Need, contract
from staticfire.harness.conformance.clients.processes import ProcessClients, our_clients
from staticfire.harness.conformance.result import Outcome
from staticfire.harness.conformance.sites.loopback import LoopbackSite
from staticfire.harness.conformance.sites.suite import SuiteResult, choose, run_suite

pytestmark = pytest.mark.real
CHEAP = ("RMQ-FLT-02", "RMQ-LIM-05", "RMQ-ORD-06")
OPENS = """
import sys, json, time
sys.stdin.readline()
print(json.dumps({"emit": "open", "type": "ok", "value": {}}), flush=True)
"""


def judged(*command: str, patterns: tuple[str, ...] = CHEAP) -> SuiteResult:
    return judged_clients(ProcessClients("it", command), patterns)


def judged_clients(clients: ProcessClients, patterns: tuple[str, ...] = CHEAP) -> SuiteResult:
    return run_suite(LoopbackSite(clients), choose("client", patterns))


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@pytest.mark.slow
def test_our_client_keeps_the_cheap_clauses() -> None:
    patterns = (*CHEAP, "RMQ-ADM-17")

    result = judged_clients(our_clients(sys.executable, "own"), patterns)

    assert [one.outcome for one in result.results] == [Outcome.PASSED] * len(patterns), [
        one.reason for one in result.results
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit('no such broker')", "ended with status 1 (no such broker)"),
        ("import os; os.kill(os.getpid(), 11)", "ended by SIGSEGV"),
        ("print('Hello!')", "'Hello!' is no JSON"),
        ("import time; time.sleep(100)", "did not start within 1 s"),
        ("import os, time; os.close(1); time.sleep(100)", "did not start within 1 s"),
    ],
)
def test_what_is_no_client_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    monkeypatch.setattr(clients, "ANSWER_S", 1.0)

    result = judged(*python(code))

    assert {one.outcome for one in result.results} == {Outcome.NOT_RUN}
    assert said in result.results[0].reason
    assert result.is_below_floor


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("time.sleep(100)", "did not answer"),
        ("sys.stdin.readline()", "ended with status 0"),
        ("sys.stdin.readline(); print('{}', flush=True)", "has neither 'id' nor 'emit'"),
    ],
)
def test_a_client_that_fails_in_a_case_fails_it(
    monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    monkeypatch.setattr(clients, "ANSWER_S", 1.0)

    result = judged(*python(OPENS + code), patterns=("RMQ-LIM-05",))

    assert result.results[0].outcome is Outcome.FAILED
    assert said in result.results[0].reason


def test_a_client_that_says_nonsense_is_asked_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("staticfire.harness.conformance.sites.concurrent.AT_ONCE", 1)

    code = OPENS + "sys.stdin.readline(); print('?')"
    result = judged(*python(code), patterns=("RMQ-LIM-05", "RMQ-ORD-06"))

    assert {one.outcome for one in result.results} == {Outcome.FAILED, Outcome.NOT_RUN}
    assert result.counts()[Outcome.FAILED] == 1


def test_what_a_client_says_that_it_cannot_is_not_run() -> None:
    cannot = (
        OPENS + "r = json.loads(sys.stdin.readline());"
        'print(json.dumps({"id": r["id"], "type": "fail", "value": {}, "error": "no batches"}), flush=True);'
        "sys.stdin.read()"
    )

    result = judged(*python(cannot), patterns=("RMQ-LIM-05",)).results[0]

    assert (result.outcome, result.reason) == (
        Outcome.NOT_RUN,
        "the client cannot send a batch: no batches",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("/no/such/program x", "there is no program /no/such/program"),
        ("'half", "No closing quotation"),
    ],
)
def test_a_client_that_there_is_not_is_a_bad_argument(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        client_under_test(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--client", "cat", "--environment", "simulation"), "is judged on loopback"),
        (("--client", "own", "--environment", "processes"), "is judged on loopback"),
        (("--client", "own", "--environment", "moon"), "'moon'; allowed: simulation, loopback"),
    ],
)
def test_where_a_client_cannot_be_judged(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    assert status_of(["conform", *options]) == 254
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_our_clients_are_judged_in_the_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["conform", "--client", "own"]) == 0
    assert "26 passed" in capsys.readouterr().out


def test_the_report_of_a_client_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = status_of(["conform", "--client", "false", "--out", str(tmp_path)])

    assert status == 2
    assert "26 not run" in capsys.readouterr().out
    assert (tmp_path / "junit.xml").exists()


def test_client_clauses_break_nothing() -> None:
    needing = [clause for clause in contract().values() if Need.CLIENT in clause.needs]

    assert len(needing) == 26
    assert all(clause.level in (Level.MUST, Level.SHOULD) for clause in needing)
    assert not any(clause.needs & {Need.FAULT, Need.POWER, Need.FILES} for clause in needing)
