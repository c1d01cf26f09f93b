"""Hunts: a row for each seed, also for one at which the harness failed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from staticfire.harness.campaign.file import load_options
from staticfire.harness.cli.hunt import seeds
from staticfire.harness.cli.hunt.seeds import SeedResult
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs import simulated_runner
from staticfire.harness.systems.errors import RunError
from tests.harness.cli.conftest import SHORT, Staticfire


def seed_result(seed: int, valid: bool | str, workload: str = "queue") -> SeedResult:
    return SeedResult(
        seed=seed,
        workload=workload,
        valid=valid,
        digest=f"digest-{seed}",
        acked=1000 + seed,
        bitten=("kill",),
        dirty_power_cut=False,
        cpu_s=0.5,
        summary=(f"story of {seed}",),
    )


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[int, bool | str]:
    """What comes of a seed; True unless a test says otherwise."""
    given: dict[int, bool | str] = {}

    def answer(seed: int, options: dict[str, Any], client_only: bool) -> SeedResult:
        return seed_result(seed, given.get(seed, True), options.get("workload", "queue"))

    monkeypatch.setattr(seeds, "run_seed", answer)
    return given


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ({}, 0),
        ({3: "unknown"}, 0),
        ({3: "unknown", 4: False}, 1),
        (dict.fromkeys(range(6), "unknown"), 2),
    ],
)
def test_the_status_says_the_worst(
    found: dict[int, bool | str], status: int, answers: dict[int, Any], staticfire: Staticfire
) -> None:
    answers.update(found)
    assert staticfire("hunt", "--seeds", "0-5", "--jobs", 1).status == status


def test_each_seed_is_a_line_with_its_digest_in_order_of_seeds(
    answers: dict[int, Any], staticfire: Staticfire, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    staticfire("hunt", "--seeds", "5-8", "--jobs", 1, "--reverse", "--out", out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["seed"], row["digest"]) for row in rows] == [
        (seed, f"digest-{seed}") for seed in range(5, 9)
    ]


def test_one_number_is_that_seed_alone(answers: dict[int, Any], staticfire: Staticfire) -> None:
    said = staticfire("hunt", "--seeds", "5", "--jobs", 1)
    assert said.err == "seed 5 alone; --seeds FIRST-LAST is a range\n"
    assert "seeds     1:" in said.out
    assert staticfire("hunt", "--seeds", "5-5", "--jobs", 1).err == ""


def test_several_workloads_one_after_the_other(
    answers: dict[int, Any], staticfire: Staticfire, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    chosen = ("--workload", "retry,batch", "--seeds", "0-9")
    said = staticfire("hunt", *chosen, "--jobs", 1, "--out", out)
    assert [line for line in said.out.splitlines() if line.startswith("workload")] == [
        "workload  retry",
        "workload  batch",
    ]
    assert "never reached, as retry should: retried" not in said.out
    assert "never reached, as batch should: batched" in said.out
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["workload"], row["seed"]) for row in rows] == [
        (workload, seed) for workload in ("batch", "retry") for seed in range(10)
    ]
    assert staticfire("hunt", "--workload", "retry,none", "--jobs", 1).status == 254


def test_until_found_stops_at_the_first_invalid_seed(
    answers: dict[int, Any], staticfire: Staticfire, tmp_path: Path
) -> None:
    answers[2] = False
    said = staticfire("hunt", "--seeds", "0-9", "--jobs", 1, "--until-found")
    assert said.status == 1
    assert "story of 2" in said.out
    assert "seeds     3:" in said.out


def test_a_cause_is_printed_whole_once_and_summed_up(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    causes = {2: "loss (lost)", 4: "duplicate", 5: "loss (lost)", 7: "loss (unseen)"}

    def answer(seed: int, options: dict[str, Any], judging: Any) -> SeedResult:
        found = seed_result(seed, seed not in causes)
        return replace(found, fingerprint=causes.get(seed, ""))

    monkeypatch.setattr(seeds, "run_seed", answer)
    lines = staticfire("hunt", "--seeds", "0-9", "--jobs", 1).out.splitlines()
    assert [line for line in lines if line.startswith(("seed ", "story"))] == [
        *("seed 2: False", "story of 2", "seed 4: False", "story of 4"),
        *("seed 5: False  loss (lost), as seed 2", "seed 7: False", "story of 7"),
    ]
    assert [line for line in lines if line.startswith("cause")] == [
        "cause     loss (lost) in 2 seeds: staticfire run --seed 2",
        "cause     duplicate in 1 seed: staticfire run --seed 4",
        "cause     loss (unseen) in 1 seed: staticfire run --seed 7",
    ]


def test_until_found_waits_for_the_anomaly_that_is_asked_for(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    anomalies = {2: ("unseen",), 4: ("lost", "unseen"), 6: ("lost",)}

    def answer(seed: int, options: dict[str, Any], judging: Any) -> SeedResult:
        found = seed_result(seed, seed not in anomalies)
        return replace(found, anomalies=anomalies.get(seed, ()))

    monkeypatch.setattr(seeds, "run_seed", answer)
    chosen = ("--seeds", "0-9", "--jobs", 1, "--anomaly", "lost")
    assert "seeds     5: 3 valid, 2 invalid" in staticfire("hunt", *chosen, "--until-found").out
    said = staticfire("hunt", *chosen)
    assert said.status == 254
    assert "--until-found, which is missing" in said.err


def test_an_unknown_anomaly_is_refused_with_near_names(staticfire: Staticfire) -> None:
    said = staticfire("hunt", "--until-found", "--anomaly", "losst")
    assert said.status == 254
    assert "--anomaly is 'losst'; did you mean lost?" in said.err


def test_a_budget_ends_a_hunt_between_seeds(
    answers: dict[int, Any], staticfire: Staticfire, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    said = staticfire("hunt", "--seeds", "0-9", "--jobs", 1, "--budget", "1e-9", "--out", out)
    assert said.status == 0
    assert said.out.splitlines()[-1] == "budget    1e-09 s are over: 1 of 10 seeds done"
    assert len(out.read_text().splitlines()) == 1


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "inf"])
def test_a_budget_is_a_time(budget: str, staticfire: Staticfire) -> None:
    said = staticfire("hunt", "--budget", budget)
    assert said.status == 254
    assert "allowed: more than 0 and up to 1000000 seconds" in said.err


def test_seeds_that_reach_nothing_new_are_counted(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(seed: int, options: dict[str, Any], judging: Any) -> SeedResult:
        return replace(seed_result(seed, True), coverage={"a": 1, "b": int(seed >= 3)})

    monkeypatch.setattr(seeds, "run_seed", answer)
    said = staticfire("hunt", "--seeds", "0-9", "--jobs", 1)
    assert "          the last 6 seeds reached no new mark" in said.out.splitlines()


def test_until_found_stops_at_the_first_invalid_seed_of_all_workloads(
    answers: dict[int, Any], staticfire: Staticfire
) -> None:
    answers[2] = False
    chosen = ("--workload", "retry,batch", "--seeds", "0-9", "--until-found")
    said = staticfire("hunt", *chosen, "--jobs", 1)
    assert "workload  batch" not in said.out
    assert "all       3 seeds of 1 workloads: 2 valid, 1 invalid, 0 unknown" in said.out


def test_what_an_interrupted_hunt_found_is_kept(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def answer(seed: int, options: dict[str, Any], judging: Any) -> SeedResult:
        return replace(seed_result(seed, True), interrupted=seed == 2)

    monkeypatch.setattr(seeds, "run_seed", answer)
    out, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    out.write_text("of a hunt before\n")
    said = staticfire("hunt", "--seeds", "0-9", "--jobs", 1, "--out", out)
    assert said.status == 255
    assert f"interrupted after 3 of 10 seeds; their rows are in {part}" in said.err
    assert [json.loads(line)["seed"] for line in part.read_text().splitlines()] == [0, 1, 2]
    assert out.read_text() == "of a hunt before\n"
    assert "seeds     3: 3 valid" in said.out


def test_a_device_gets_the_rows_as_they_come_and_stays_one(
    answers: dict[int, Any], staticfire: Staticfire
) -> None:
    said = staticfire("hunt", "--seeds", "0-2", "--jobs", 1, "--out", "/dev/null")
    assert said.status == 0
    assert Path("/dev/null").is_char_device()
    assert not Path("/dev/null.part").exists()


def test_a_file_that_cannot_be_written_is_said_before_the_work(
    answers: dict[int, Any], staticfire: Staticfire, tmp_path: Path
) -> None:
    said = staticfire("hunt", "--jobs", 1, "--out", tmp_path / "none" / "out.jsonl")
    assert said.status == 254
    assert "cannot be written: No such file or directory" in said.err


@pytest.mark.slow
def test_a_seed_that_cannot_be_carried_out_hides_no_other(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_simulated = simulated_runner.run_simulated

    def fail_for_seed_1(campaign: Any) -> Any:
        if campaign.seed == 1:
            raise RunError("the cluster did not come up")
        return run_simulated(campaign)

    monkeypatch.setattr(simulated_runner, "run_simulated", fail_for_seed_1)
    out = tmp_path / "out.jsonl"
    said = staticfire("hunt", "--seeds", "0-1", "--jobs", 1, *SHORT, "--out", out)
    assert said.status == 255
    assert "the cluster did not come up" in said.out
    sound, failed = map(json.loads, out.read_text().splitlines())
    assert (bool(sound["digest"]), failed["digest"]) == (True, "")


def test_a_hunt_goes_on_where_it_was_interrupted(
    answers: dict[int, Any], staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run: list[int] = []

    def answer(seed: int, options: dict[str, Any], judging: Any) -> SeedResult:
        run.append(seed)
        return replace(seed_result(seed, seed != 1), interrupted=run == [0, 1, 2])

    monkeypatch.setattr(seeds, "run_seed", answer)
    out = tmp_path / "out.jsonl"
    hunt = ("hunt", "--seeds", "0-4", "--jobs", 1, "--out", out)
    assert staticfire(*hunt).status == 255
    part = tmp_path / "out.jsonl.part"
    part.write_bytes(part.read_bytes()[:-5])  # the last line is torn
    said = staticfire(*hunt, "--resume")
    assert run == [0, 1, 2, 2, 3, 4]
    assert said.status == 1
    assert "seeds     5: 4 valid, 1 invalid" in said.out
    assert [json.loads(line)["seed"] for line in out.read_text().splitlines()] == [0, 1, 2, 3, 4]
    staticfire(*hunt, "--resume")  # nothing is left to do
    assert len(run) == 6


def test_rows_of_another_hunt_are_not_gone_on_with(
    answers: dict[int, Any], staticfire: Staticfire, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    staticfire("hunt", "--seeds", "0-1", "--jobs", 1, "--out", out)
    said = staticfire("hunt", "--seeds", "0-1", "--time", 40, "--out", out, "--resume")
    assert said.status == 254
    assert "holds rows of a hunt with other options; choose another --out" in said.err


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ((), "--resume goes on with the rows of --out, which is missing"),
        (("--out", "rows"), "rows.part cannot be read: Is a directory"),
    ],
)
def test_what_cannot_be_resumed(
    out: tuple[str, ...],
    words: str,
    staticfire: Staticfire,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.part").mkdir()
    said = staticfire("hunt", "--seeds", "0-1", *out, "--resume")
    assert (said.status, words in said.err) == (254, True), said.err


def test_without_rows_a_hunt_begins(
    answers: dict[int, Any], staticfire: Staticfire, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    staticfire("hunt", "--seeds", "0-1", "--jobs", 1, "--out", out, "--resume")
    assert [json.loads(line)["seed"] for line in out.read_text().splitlines()] == [0, 1]


def test_a_guided_hunt_breeds_and_keeps_what_fails(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever is bred fails here; its campaign file is what makes that run again."""
    bred: list[int] = []

    def answer(seed: int, options: dict[str, Any], judging: Any) -> SeedResult:
        if "plan" in options:
            bred.append(seed)
        found = seed_result(seed, "plan" not in options)
        return replace(found, coverage={"mark": seed + 1}, fingerprint="loss (lost)")

    monkeypatch.setattr(seeds, "run_seed", answer)
    out, folder = tmp_path / "out.jsonl", tmp_path / "bred"
    hunt = ("hunt", "--seeds", "0-35", "--jobs", 1, "--guided", "--bred", folder, "--out", out)
    said = staticfire(*hunt)
    assert bred == [*range(17, 36, 2)]
    assert (
        f"cause     loss (lost) in 10 seeds: staticfire run --campaign {folder}/bred-17.toml"
        in said.out
    )
    assert "seen      behaviours: 1 after 1, 2 after 2, 3 after 5" in said.out
    campaign = draw_campaign(17, load_options(str(folder / "bred-17.toml")))
    assert campaign.to_toml() == (folder / "bred-17.toml").read_text()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["seed"] for row in rows if row["bred"]] == bred
    out.with_suffix(".jsonl.part").write_bytes(b"".join(out.read_bytes().splitlines(True)[:20]))
    bred.clear()
    staticfire(*hunt, "--resume")
    assert bred == [*range(21, 36, 2)]
    assert [json.loads(line) for line in out.read_text().splitlines()] == rows


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workload", None),
        ("seed", "x"),
        ("coverage", [1]),
        ("anomalies", 3),
        ("acked", 1.5),
        ("valid", []),
    ],
)
def test_a_row_of_wrong_types_is_not_resumed(
    name: str, value: object, staticfire: Staticfire, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    row = {**seed_result(0, True).row, name: value}
    out.write_bytes(orjson.dumps(row) + b"\n")
    said = staticfire("hunt", "--seeds", "0-1", "--jobs", 1, "--out", out, "--resume")
    assert said.status == 254
    assert "line 1 is no row of a hunt" in said.err
    assert said.err.count("\n") == 1
