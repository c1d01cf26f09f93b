"""`staticfire conform --name-server`: messages for targets that it cannot judge, and leftovers on external targets."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from staticfire.harness import cli
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import Case
from staticfire.harness.conformance.result import CaseResult
from staticfire.harness.conformance.sites import simulated
from staticfire.harness.conformance.target_facts import TargetFacts
from staticfire.harness.conformance.trying import try_case
from staticfire.harness.local_cluster import LocalCluster
from tests.harness.cli.conftest import Staticfire


def report_in(folder: Path) -> dict[str, Any]:
    document = json.loads((folder / "conformance.json").read_text())
    assert isinstance(document, dict)
    return document


def test_a_target_that_is_down(staticfire: Staticfire, tmp_path: Path) -> None:
    said = staticfire("conform", "--name-server", "127.0.0.1:1", "--out", tmp_path)

    assert said.status == 255
    assert said.err.startswith("staticfire: cannot connect to 127.0.0.1:1: ")
    assert said.err.count("\n") == 1
    report = report_in(tmp_path)
    assert report["stopped"] in said.err
    assert report["counts"] == {"not run": len(report["cases"])}
    assert report["stopped"] in {case["reason"] for case in report["cases"]}
    assert "cannot connect" in (tmp_path / "summary.md").read_text()
    badge = json.loads((tmp_path / "badge.json").read_text())
    assert badge["color"] == "lightgrey"


def test_a_prefix_that_no_topic_can_have(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATICFIRE_TOPIC_PREFIX", "")

    said = staticfire("conform", "--name-server", "127.0.0.1:1")

    assert said.status == 254
    assert "STATICFIRE_TOPIC_PREFIX is ''; allowed: 1 to 40" in said.err


@pytest.mark.real
def test_a_target_that_denies_permission(staticfire: Staticfire, tmp_path: Path) -> None:
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text("accounts: [{accessKey: somebody, secretKey: '12345678', admin: true}]")
    properties = {"aclEnable": "true", "rocketmq.acl.plain.file": str(accounts)}
    with LocalCluster(broker_properties=properties) as cluster:
        address = cluster.name_server_address
        said = staticfire("conform", "--name-server", address, "--out", tmp_path / "report")

    assert said.status == 255
    assert "denies permission: 1 " in said.err
    assert "No accessKey is configured" in said.err
    assert set(report_in(tmp_path / "report")["counts"]) == {"not run"}


@pytest.mark.slow
@pytest.mark.real
def test_nothing_is_left_and_nothing_foreign_touched(
    staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATICFIRE_TOPIC_PREFIX", "orders")
    with LocalCluster() as cluster:
        address = cluster.name_server_address
        where = ("-n", address, "-c", "DefaultCluster")
        foreign = ("orders", "orders-europe", "orders-lim-06-mine")
        for topic in foreign:
            assert staticfire("admin", "updateTopic", *where, "-t", topic).status == 0
        assert staticfire("admin", "updateSubGroup", *where, "-g", "orders-rty-01-g").status == 0
        before = names(staticfire, address)
        chosen = "RMQ-RBL-06,RMQ-LIM-0?,RMQ-ADM-01,RMQ-ADM-06,RMQ-RTY-06,RMQ-OFF-01"
        said = staticfire(
            "conform", "--name-server", address, "--select", chosen, "--out", tmp_path
        )
        after = names(staticfire, address)

    assert said.status == 0, said.out
    assert {topic for topic in foreign if f'"{topic}"' in before} == set(foreign)
    assert after == before


def names(staticfire: Staticfire, address: str) -> str:
    """All topics of a cluster, and all groups of its master."""
    topics = staticfire("admin", "topicList", "-n", address, "--json").out
    groups = staticfire("admin", "getConsumerConfig", "-n", address, "-g", "orders-rty-01-g").out
    return topics + groups


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--environment ssh", "--ssh-hosts names 0 hosts; this campaign needs 7 or more"),
        ("--environment processes --target apache", "--target apache needs --home DIR"),
        ("--target apache", "--target apache is started on machines; --environment is simulation"),
        ("--target java", "--target is 'java'; allowed: own, apache"),
        ("--name-server 127.0.0.1:1 --mode faithful", "--mode and --defect are of our own cluster"),
        ("--beside before", "--beside needs --out DIR"),
        ("--client=", "--client is '': it is empty"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    staticfire: Staticfire, options: str, said: str
) -> None:
    answer = staticfire("conform", *options.split())

    assert answer.status == 254
    assert said in answer.err
    assert answer.err.count("\n") == 1


@pytest.fixture
def hears_terms() -> Iterator[None]:
    """SIGTERM means what the command makes of it."""
    before = signal.signal(signal.SIGTERM, cli._interrupt)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("hears_terms")
def test_an_interruption_leaves_the_report_of_what_was_tried(
    number: int, staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the third case of five begins, inside the simulation."""
    tried: list[str] = []

    async def try_until_the_third(case: Case, target: TargetFacts) -> CaseResult:
        tried.append(case.clause.id)
        if len(tried) == 3:
            signal.raise_signal(number)
        return await try_case(case, target)

    monkeypatch.setattr(simulated, "try_case", try_until_the_third)
    said = staticfire("conform", "--select", "RMQ-LIM-0[12346]", "--out", tmp_path)

    assert (said.status, said.err) == (255, "staticfire: interrupted after 2 of 5 clauses\n")
    assert len(tried) == 3
    assert "not run: 3 (interrupted after 2 of 5 clauses)" in said.out
    report = report_in(tmp_path)
    assert report["stopped"] == "interrupted after 2 of 5 clauses"
    assert report["counts"] == {"not run": 3, "passed": 2}
    left = [case["id"] for case in report["cases"] if case["reason"] == report["stopped"]]
    assert left == [case["id"] for case in report["cases"]][2:]
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("skipped"), suite.get("failures")) == ("5", "3", "0")
    assert f"**{report['stopped']}**" in (tmp_path / "summary.md").read_text()
    assert report["stopped"] in (tmp_path / "matrix.html").read_text()
    assert (tmp_path / "badge.json").exists()


@pytest.mark.real
def test_an_interruption_removes_what_cases_made_at_an_address(
    staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when a case has made its topic; another case runs beside it."""
    make = Bench.topic

    async def make_and_interrupt(bench: Bench, *arguments: Any, **options: Any) -> str:
        made = await make(bench, *arguments, **options)
        signal.raise_signal(signal.SIGINT)
        return made

    with LocalCluster() as cluster:
        address = cluster.name_server_address
        before = staticfire("admin", "topicList", "-n", address).out
        monkeypatch.setattr(Bench, "topic", make_and_interrupt)
        chosen = ("--select", "RMQ-SND-01,RMQ-SND-02", "--out", tmp_path)
        said = staticfire("conform", "--name-server", address, *chosen)
        after = staticfire("admin", "topicList", "-n", address).out

    assert (said.status, said.err.splitlines()[-1]) == (
        255,
        "staticfire: interrupted after 0 of 2 clauses",
    )
    assert report_in(tmp_path)["counts"] == {"not run": 2}
    assert after == before
