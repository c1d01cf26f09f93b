"""`look`, and `explain` with a repeated run: one planted loss, and runs that cannot be repeated."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from staticfire.harness.explain.reached_code import SEEDS
from tests.harness.cli.conftest import Staticfire, without_checksums

SYSTEM = Path(__file__).parents[3] / "system_under_test"


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has lost a message to a power cut."""
    from staticfire.harness.cli import status_of

    folder = tmp_path_factory.mktemp("lost")
    campaign = folder / "campaign.toml"
    campaign.write_text(CAMPAIGN)
    options = ["--campaign", str(campaign), "--seed", "1", "--runs", str(folder / "runs")]
    assert status_of(["run", *options]) == 1
    [run] = (folder / "runs").iterdir()
    return run


CAMPAIGN = """
[campaign]
defect = "ack-before-fsync"
name_servers = 1
slaves = [0]
flush = "sync"
replication = "none"
time_s = 8.0
producers = 4
consumers = 1
think_ms = 20.0  # the cut always meets messages that are acknowledged and not yet synced
fsync_us = 20000
acks_min = 10
faults = ["power-cut"]

[[campaign.plan]]
kind = "power-cut"
at_s = 4.0
duration_s = 2.0
targets = ["broker-a-0"]
"""


@pytest.mark.slow
def test_the_point_of_no_return_of_a_power_cut_is_the_power_cut(
    lost: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from staticfire.harness.cli import status_of

    options = ["--point-of-no-return", "--jobs", "2", "--budget", "600", "--json"]
    assert status_of(["explain", str(lost), *options]) == 0
    found = json.loads(capfd.readouterr().out)["point_of_no_return"]
    [fault] = map(json.loads, (lost / "faults.jsonl").read_text().splitlines())
    assert found["before_ns"] < fault["struck_ns"] <= found["after_ns"]
    assert any("power-cut" in event["text"] for event in found["events"])


@pytest.mark.slow
def test_the_code_that_failing_runs_reach_is_ranked(
    lost: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from staticfire.harness.cli import status_of

    options = ["--code", "--jobs", "2", "--budget", "600", "--json"]
    assert status_of(["explain", str(lost), *options]) == 0
    found = json.loads(capfd.readouterr().out)["code"]
    assert found["is_complete"]
    assert found["passing"] == 0  # each run acknowledges too early
    assert min(found["failing"], found["otherwise"]) >= 1
    assert found["failing"] + found["otherwise"] == 1 + 1 + SEEDS
    first = found["functions"][0]
    assert (first["score"], first["failing"], first["others"]) == (1.0, found["failing"], 0)
    for one in found["functions"]:
        lines = (SYSTEM / one["module"]).read_text().splitlines()
        names = {part for line in lines[: one["line"]] for part in re.findall(r"\w+", line)}
        assert set(one["function"].split(".")) <= names


@pytest.mark.slow
def test_a_broker_is_shown_as_it_was(lost: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from staticfire.harness.cli import status_of

    def shown(at: str, *options: str, node: str = "broker-a-0") -> str:
        assert status_of(["look", str(lost), "--at", at, "--node", node, *options]) == 0
        return capfd.readouterr().out

    up = json.loads(shown("3s", "--json"))
    assert up["state"] == "up"
    assert 0 < up["store"]["flushed"] <= up["store"]["ends"]
    assert up["queues"][0]["topic"] == "StaticfireTopic"
    assert "without power" in shown("5s")
    assert "routes    topic StaticfireTopic" in shown(
        "3s", "--what", "routes", node="ns-1"
    ).replace("routes    topic %RETRY%staticfire-group", "")
    assert "/store/commitlog/" in shown("3s", "--what", "files")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--at", "soon", "--node", "ns-1"), "--at is 'soon'; allowed: virtual seconds"),
        (("--at", "-1", "--node", "ns-1"), "--at is '-1'; allowed: virtual seconds"),
        (("--at", "1s", "--node", "ns-9"), "--node is 'ns-9'; did you mean ns-1? allowed: ns-1, "),
        (
            ("--at", "1s", "--node", "ns-1", "--what", "route"),
            "--what is 'route'; did you mean routes? allowed: store, queues, offsets, routes, files",
        ),
    ],
)
def test_a_look_at_nothing_is_refused(
    run_folder: Path, staticfire: Staticfire, options: tuple[str, ...], what: str
) -> None:
    said = staticfire("look", run_folder, *options)
    assert (said.status, len(said.err.splitlines())) == (254, 1)
    assert what in said.err


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "--point-of-no-return"),
        ("explain", "--code"),
        ("look", "--at", "1s", "--node", "ns-1"),
    ],
)
def test_a_run_that_is_not_simulated_is_not_repeated(
    run_folder: Path, staticfire: Staticfire, command: tuple[str, ...]
) -> None:
    path = without_checksums(run_folder) / "campaign.toml"
    path.write_text(path.read_text().replace('"simulation"', '"processes"'))
    name, *options = command
    said = staticfire(name, run_folder, *options)
    assert said.status == 254
    assert len(said.err.splitlines()) == 1


def test_faults_are_drawn_again_only_where_the_run_is_rewound(
    run_folder: Path, staticfire: Staticfire
) -> None:
    said = staticfire("explain", run_folder, "--draw-faults")
    assert said.status == 254
    assert "--draw-faults is given" in said.err
