"""`staticfire conform --name-server`: what it says of targets that it cannot judge, and what it leaves at others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from staticfire.harness.local_cluster import LocalCluster
from tests.harness.cli.conftest import Said

Staticfire = Callable[..., Said]


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
