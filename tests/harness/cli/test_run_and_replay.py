"""`run` keeps everything that `replay` and `check` need; a damaged folder gives one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from staticfire.harness.runs import simulated_runner
from staticfire.harness.systems.errors import RunError
from tests.harness.cli.conftest import SHORT, Staticfire, refused


@pytest.mark.slow
def test_a_run_is_repeated_bit_by_bit(kept_run: Path, staticfire: Staticfire) -> None:
    said = staticfire("replay", kept_run)
    assert said.status in (0, 2)
    assert "replay identical" in said.out


@pytest.mark.slow
def test_a_repetition_that_differs_is_an_error(run_folder: Path, staticfire: Staticfire) -> None:
    edit_verdict(run_folder, lambda verdict: verdict.update(digest="0" * 64))
    said = staticfire("replay", run_folder)
    assert said.status == 255
    assert "DIFFERS" in said.out


@pytest.mark.slow
def test_a_campaign_file_with_a_seed_repeats_its_run(
    kept_run: Path, staticfire: Staticfire, tmp_path: Path
) -> None:
    staticfire("run", "--campaign", kept_run / "campaign.toml", "--runs", tmp_path)
    [again] = tmp_path.iterdir()
    for name in ("history.jsonl", "observations.jsonl", "faults.jsonl", "campaign.toml"):
        assert (again / name).read_bytes() == (kept_run / name).read_bytes()


def test_check_says_what_the_run_said(kept_run: Path, staticfire: Staticfire) -> None:
    verdict = json.loads((kept_run / "verdict.json").read_bytes())["verdict"]
    status = {True: 0, False: 1, "unknown": 2}[verdict["valid"]]
    assert staticfire("check", kept_run).status == status
    assert staticfire("check", "--client-only", kept_run).status in (0, 1, 2)


def test_a_harness_error_is_255(staticfire: Staticfire, monkeypatch: Any, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RunError("the cluster did not come up")

    monkeypatch.setattr(simulated_runner, "run_simulated", fail)
    said = staticfire("run", "--seed", 1, *SHORT, "--runs", tmp_path)
    assert said.status == 255
    assert "the cluster did not come up" in said.err
    assert not any(tmp_path.iterdir())  # `analyze` would look for the verdict of such a run


def edit_verdict(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "verdict.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


def cut_in_half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize("command", ["check", "replay"])
@pytest.mark.parametrize("name", ["campaign.toml", "verdict.json"])
def test_a_damaged_file_is_named(
    command: str, name: str, run_folder: Path, staticfire: Staticfire
) -> None:
    cut_in_half(run_folder / name)
    assert refused(staticfire(command, run_folder), name)
    (run_folder / name).write_bytes(b"\x00\xff")
    assert refused(staticfire(command, run_folder), name)


@pytest.mark.parametrize("command", ["check", "replay"])
def test_a_campaign_that_lacks_an_option_is_not_drawn_anew(
    command: str, run_folder: Path, staticfire: Staticfire
) -> None:
    path = run_folder / "campaign.toml"
    whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in whole if not line.startswith("fsync_us")))
    assert refused(staticfire(command, run_folder), "campaign.toml", "fsync_us")


def test_replay_of_a_run_that_broke_off_says_how_to_do_it_again(
    run_folder: Path, staticfire: Staticfire
) -> None:
    (run_folder / "verdict.json").unlink()
    said = staticfire("replay", run_folder)
    assert refused(said, "did not finish", f"staticfire run --campaign {run_folder}")


@pytest.mark.parametrize("damage", [7, "text", None, {"flush": "sync"}])
def test_damaged_facts_are_refused(damage: Any, run_folder: Path, staticfire: Staticfire) -> None:
    edit_verdict(run_folder, lambda verdict: verdict.update(facts=damage))
    assert refused(staticfire("check", run_folder), "verdict.json")
