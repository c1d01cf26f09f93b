"""The folder of a run without checksums whose files contradict each other: refused, or never valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli.conftest import Staticfire, refused, without_checksums


@pytest.fixture
def run_folder(run_folder: Path) -> Path:
    """Without checksums: only what the files say ties them together."""
    return without_checksums(run_folder)


def change_facts(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "verdict.json"
    document = json.loads(path.read_bytes())
    change(document["facts"])
    path.write_text(json.dumps(document))


def half_a_line(folder: Path) -> None:
    path = folder / "observations.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind": "rou')


def drop_an_observation(folder: Path) -> None:
    path = folder / "observations.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    routes = [number for number, line in enumerate(lines) if b'"kind":"route"' in line]
    del lines[routes[len(routes) // 2]]
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush", "async"),
        ("replication", "sync"),
        ("mode", "faithful"),
        ("transient_pool", True),
        ("groups", {}),
        ("producers", ["producer-1"]),
        ("gap_max_s", 1e6),
        ("floors", {"acked_min": 0, "bitten_min": 0, "drained": False}),
    ],
)
def test_facts_that_promise_something_else_than_the_campaign_are_refused(
    name: str, value: object, run_folder: Path, staticfire: Staticfire
) -> None:
    change_facts(run_folder, lambda facts: facts.update({name: value}))
    assert refused(staticfire("check", run_folder), name, "campaign.toml", "edited")


def test_files_that_agree_are_believed(run_folder: Path, staticfire: Staticfire) -> None:
    assert staticfire("check", run_folder).status == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda facts: facts.update(due=[]), "look_up was to be recorded"),
        (lambda facts: facts.update(living=[]), "living"),
        (lambda facts: facts.update(disks_observed=False), "disks_observed"),
        (lambda facts: facts["timings"].update(rebalance_s=900.0), "timings"),
        (lambda facts: facts["faults"][0].update(affects=["clock"]), "affects of fault 0"),
        (lambda facts: facts.pop("evenly"), "lack evenly"),
        (lambda facts: facts.update(torn=True), "the history is torn"),
        (lambda facts: facts.update(unfinished=True), "the run did not finish"),
        (lambda facts: facts.update(unread="too large"), "durable_before_ack"),
    ],
)
def test_weaker_facts_are_not_believed(
    change: Callable[[dict[str, Any]], object],
    words: str,
    run_folder: Path,
    staticfire: Staticfire,
) -> None:
    change_facts(run_folder, change)
    said = staticfire("check", run_folder)
    assert said.status == 2
    assert words in " ".join(said.out.split())


@pytest.mark.parametrize("field", ["fired_ns", "bitten_ns", "healed_ns"])
def test_times_of_a_fault_that_are_not_those_of_its_file_are_refused(
    field: str, run_folder: Path, staticfire: Staticfire
) -> None:
    def widen(facts: dict[str, Any]) -> None:
        facts["faults"][0][field] += -1 if field == "fired_ns" else 1

    change_facts(run_folder, widen)
    assert refused(staticfire("check", run_folder), "faults.jsonl", field, "fault 0")


def test_a_fault_that_is_in_one_file_only_is_refused(
    run_folder: Path, staticfire: Staticfire
) -> None:
    change_facts(run_folder, lambda facts: facts["faults"].pop())
    assert refused(staticfire("check", run_folder), "faults.jsonl has fault", "verdict.json")


def test_a_line_of_faults_that_is_missing_is_refused(
    run_folder: Path, staticfire: Staticfire
) -> None:
    path = run_folder / "faults.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert refused(staticfire("check", run_folder), "faults.jsonl has nothing", "campaign.toml")


def test_an_exit_that_the_history_does_not_have_is_refused(
    run_folder: Path, staticfire: Staticfire
) -> None:
    ended = {"node": "broker-a-0", "time_ns": 2_000_000_000, "error": "status 1"}
    change_facts(run_folder, lambda facts: facts["exits"].append(ended))
    assert refused(staticfire("check", run_folder), "broker-a-0", "2.000 s", "the history")


def test_an_exit_that_only_the_history_has_is_refused(
    run_folder: Path, staticfire: Staticfire
) -> None:
    path = run_folder / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    last = json.loads(lines[-1])
    ended = {
        "index": last["index"] + 1,
        "time_ns": last["time_ns"],
        "process": -1,
        "type": "info",
        "f": "node_exit",
        "value": {"targets": ["broker-a-0"], "phase": "exited"},
        "error": "status 1",
        "node": "broker-a-0",
    }
    path.write_bytes(b"".join([*lines, json.dumps(ended).encode() + b"\n"]))
    assert refused(staticfire("check", run_folder), "the history", "broker-a-0", "the facts")


def test_observations_that_end_in_half_a_line_are_not_all_of_them(
    run_folder: Path, staticfire: Staticfire
) -> None:
    half_a_line(run_folder)
    said = staticfire("check", run_folder)
    assert said.status == 2
    assert "observations.jsonl ends in half a line" in said.out


def test_every_observation_was_counted(run_folder: Path, staticfire: Staticfire) -> None:
    drop_an_observation(run_folder)
    said = staticfire("check", run_folder)
    assert said.status == 2
    assert "the recorded verdict of routes counts" in " ".join(said.out.split())


@pytest.mark.parametrize("keep_checksums", [True, False])
def test_a_run_whose_faults_are_not_there_is_refused(
    keep_checksums: bool, kept_run: Path, run_folder: Path, staticfire: Staticfire
) -> None:
    if keep_checksums:
        (run_folder / "verdict.json").write_bytes((kept_run / "verdict.json").read_bytes())
    (run_folder / "faults.jsonl").unlink()
    assert refused(
        staticfire("check", run_folder), "faults.jsonl is missing", "campaign.toml plans"
    )


def test_analyze_refuses_facts_that_promise_something_else(
    run_folder: Path, staticfire: Staticfire
) -> None:
    change_facts(run_folder, lambda facts: facts.update(flush="async"))
    said = staticfire("analyze", run_folder, "--out", run_folder / "of")
    assert refused(said, "flush", "campaign.toml")


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: change_facts(folder, lambda facts: facts.update(living=[])),
        drop_an_observation,
        half_a_line,
    ],
    ids=["weaker facts", "an observation less", "half an observation"],
)
def test_analyze_doubts_what_check_doubts(
    damage: Callable[[Path], object], run_folder: Path, staticfire: Staticfire
) -> None:
    assert staticfire("analyze", run_folder, "--out", run_folder / "before").status == 0
    damage(run_folder)
    checked = staticfire("check", run_folder)
    analysed = staticfire("analyze", run_folder, "--out", run_folder / "after", "--json")
    assert (checked.status, analysed.status) == (2, 2)
    [run] = json.loads(analysed.out)["runs"]
    assert run["valid"] == "unknown"
