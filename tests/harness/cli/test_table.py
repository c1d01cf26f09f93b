"""`staticfire table`: a row for each run; runs that have one are not repeated."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.verdict import Finding, Validity, Verdict
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.cli.table import command
from staticfire.harness.cli.table.markdown import markdown_lines
from staticfire.harness.cli.table.rows import NOT_HERE, Row
from staticfire.harness.runs import simulated_runner
from staticfire.harness.systems.errors import RunError
from tests.harness.cli.conftest import Said, Staticfire

VERSIONS = {"staticfire": "0.1.0"}


def verdict_of(valid: Validity, lost: int = 0) -> RunVerdict:
    finding = Finding(
        anomaly="lost", judgement=Judgement.VIOLATION, op_index=1, time_ns=1, detail="gone"
    )
    loss = Verdict(
        checker="loss",
        valid=valid,
        counts={"lost": lost, "acked": 9, "lost_allowed": 4},
        findings=(finding,) if lost else (),
        reason="no drain" if valid == "unknown" else None,
    )
    return RunVerdict(
        valid=valid,
        verdicts=(loss,),
        below_floors=(),
        not_applicable=(),
        faults_bitten=(),
        faults_not_bitten=(),
        counts={},
    )


class Runs:
    """In place of runs: what came of each, and which there were."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, int]] = []  # campaign's workload, environment, seed
        self.outcomes: dict[int, Any] = {}  # by seed; valid where there is none

    def __call__(self, folder: Any, campaign: Any, provider: Any) -> Any:
        self.made.append((campaign.workload, campaign.environment, campaign.seed))
        outcome = self.outcomes.get(campaign.seed, verdict_of(True))
        if isinstance(outcome, BaseException):
            raise outcome
        is_cut = outcome is None
        return SimpleNamespace(
            verdict=outcome, interrupted=is_cut, acknowledged=1000 + campaign.seed
        )


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    replaced = Runs()
    monkeypatch.setattr(command, "run_in", replaced)
    return replaced


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "table.jsonl"


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()]


def table(staticfire: Staticfire, out: Path, *more: object) -> Said:
    return staticfire("table", "--out", out, "--runs", out.parent / "runs", *more)


def test_each_run_has_a_row_and_a_line_of_progress(
    runs: Runs, out: Path, staticfire: Staticfire
) -> None:
    runs.outcomes = {2: verdict_of(False, lost=1193), 3: verdict_of("unknown")}
    said = table(staticfire, out, "--campaigns", "default,batch", "--seeds", "1-3")
    assert said.status == 1
    rows = rows_of(out)
    assert [(row["campaign"], row["seed"]) for row in rows] == [
        (name, seed) for name in ("default", "batch") for seed in (1, 2, 3)
    ]
    assert [row["verdict"] for row in rows[:3]] == ["valid", "invalid", "unknown"]
    assert rows[1]["anomalies"] == {"lost": 1193}
    assert rows[1]["acknowledged"] == 1002
    assert Path(rows[1]["run"]).parent == out.parent / "runs"
    assert rows[1]["versions"]["python"]
    assert rows[2]["reason"] == "loss: no drain"
    progress = said.err.splitlines()
    assert len(progress) == 6
    assert progress[1].startswith(
        "2 of 6: default in simulation, seed 2: INVALID: 1,193 lost (0 s, "
    )
    assert said.out.splitlines()[:2] == ["| campaign, target own | simulation |", "| --- | --- |"]
    assert (
        "seed 2: INVALID: 1,193 lost (1,002 acknowledged, 0 s)<br>seed 3: unknown: loss: no drain"
        in said.out
    )


def test_what_has_a_row_is_not_run_again(runs: Runs, out: Path, staticfire: Staticfire) -> None:
    table(staticfire, out, "--campaigns", "default", "--seeds", "1-2")
    runs.made.clear()
    with out.open("ab") as file:
        file.write(b'{"target":"own","camp')  # of a harness that was killed
    said = table(staticfire, out, "--campaigns", "default,batch", "--seeds", "2-3")
    assert [seed for _, _, seed in runs.made] == [3, 2, 3]
    assert "1 of 4: default in simulation, seed 2: valid (it has a row)" in said.err
    assert [(row["campaign"], row["seed"]) for row in rows_of(out)] == [
        ("default", 1),
        ("default", 2),
        ("default", 3),
        ("batch", 2),
        ("batch", 3),
    ]


@pytest.mark.parametrize("how", [KeyboardInterrupt(), None])  # None: it ended its load
def test_an_interrupt_keeps_the_rows(
    how: object, runs: Runs, out: Path, staticfire: Staticfire
) -> None:
    runs.outcomes = {3: how}
    said = table(staticfire, out, "--campaigns", "default", "--seeds", "1-9")
    assert (said.status, [row["seed"] for row in rows_of(out)]) == (255, [1, 2])
    assert (
        said.err.splitlines()[-1]
        == f"staticfire: interrupted at 3 of 9 runs; the rows are in {out}"
    )


def test_a_run_without_a_verdict_has_no_row_and_is_tried_again(
    out: Path, staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RunError("the cluster did not come up")

    monkeypatch.setattr(simulated_runner, "run_simulated", fail)
    said = table(staticfire, out, "--campaigns", "default", "--seeds", "1-2")
    assert said.status == 255
    assert rows_of(out) == []
    assert (
        "1 of 2: default in simulation, seed 1: no verdict: the cluster did not come up" in said.err
    )
    assert said.err.endswith("2 of 2 runs came to no verdict; the same command tries them again\n")


def test_what_an_environment_lacks_is_said_in_the_table(
    runs: Runs, out: Path, staticfire: Staticfire
) -> None:
    chosen = ("--campaigns", "index,faithful-failed-fsync,batch")
    environments = ("--environments", "processes,simulation")
    said = table(staticfire, out, *chosen, *environments)
    assert said.status == 0
    assert [environment for _, environment, _ in runs.made] == [
        "simulation",
        "simulation",
        "processes",
        "simulation",
    ]
    assert [row["verdict"] for row in rows_of(out)] == [
        "simulation only",
        "valid",
        "not here",
        "valid",
        "valid",
        "valid",
    ]
    assert "| index | simulation only | valid (1,001 acknowledged, 0 s) |" in said.out
    assert "Not here: faithful-failed-fsync in processes: the fault failing-disk" in said.out
    before = out.read_bytes()
    table(staticfire, out, *chosen, *environments)
    assert out.read_bytes() == before


def test_the_policies_that_another_target_cannot_have_are_said(
    runs: Runs, out: Path, staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "check_nodes", lambda *_: None)  # no distribution is here
    campaign = tmp_path / "quirks.toml"
    campaign.write_text(
        '[campaign]\nmode = "faithful"\npolicies = ["store.sync", "may_force"]\nfaults = []\n'
    )
    chosen = ("--campaigns", campaign, "--home", tmp_path)
    said = table(staticfire, out, *chosen, "--target", "apache", "--environments", "processes")
    reason = "only our own brokers can be given single behaviours of RocketMQ 4.9.8"
    assert said.err.splitlines()[:2] == [
        f"{campaign} in processes goes without policy {policy}: {reason}"
        for policy in ("store.sync", "may_force")
    ]
    assert len(runs.made) == 1
    assert "goes without" not in table(staticfire, out, "--campaigns", campaign).err


@pytest.mark.slow
def test_a_short_run_of_the_simulation(out: Path, staticfire: Staticfire, tmp_path: Path) -> None:
    campaign = tmp_path / "short.toml"
    campaign.write_text(
        '[campaign]\ntime_s = 3.0\nslaves = [0]\nreplication = "none"\nfaults = []\n'
    )
    said = table(staticfire, out, "--campaigns", campaign)
    [row] = rows_of(out)
    assert row["verdict"] in said.err
    assert row["acknowledged"] > 0
    assert (Path(row["run"]) / "verdict.json").exists()
    printed = table(staticfire, out, "--print")
    assert (printed.status, printed.out, printed.err) == (said.status, said.out, "")


def row(campaign: str, environment: str, verdict: str = "valid", **more: Any) -> Row:
    return Row(
        target="apache", campaign=campaign, environment=environment, seed=1, verdict=verdict, **more
    )


def test_the_most_serious_anomaly_comes_first() -> None:
    mixed = {"lost_from_log": 396, "poll_skip": 400, "lost": 3}
    rows = [
        row("b", "processes", NOT_HERE, reason="no disk"),
        row("b", "namespaces", "invalid", anomalies=mixed, acknowledged=12345, wall_s=99.6),
        row("a|b", "processes", versions={"rocketmq": "4.9.8", **VERSIONS}),
    ]
    assert list(markdown_lines(rows)) == [
        "| campaign, target apache | processes | namespaces |",
        "| --- | --- | --- |",
        "| a&#124;b | valid (0 acknowledged, 0 s) |  |",
        "| b | not here | INVALID: 3 lost, 400 poll_skip, 396 lost_from_log (12,345 acknowledged, 100 s) |",
        "",
        "Runs: rocketmq 4.9.8, staticfire 0.1.0.",
        "Not here: b in processes: no disk.",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--target", "kafka"], "--target is 'kafka'; allowed: own, apache"),
        (
            ["--target", "apache"],
            "--environments names 'simulation'; allowed with --target apache: processes, namespaces, docker, ssh",
        ),
        (
            ["--environments", "processes,address"],
            "--environments names 'address'; allowed with --target own: simulation, processes, namespaces, docker, ssh",
        ),
        (["--campaigns", "none-such"], "campaign 'none-such' cannot be read"),
        (["--seeds", "9-1"], "--seeds is '9-1': its first seed is above its last one"),
        (["--name-server", "127.0.0.1:9876"], "--name-server is only for --environment address"),
        (
            ["--target", "apache", "--environments", "processes"],
            "--target apache needs --home DIR: the folder of an unpacked Apache RocketMQ 4.9 or 5",
        ),
        (["--print"], "has no rows; without --print they are made"),
        (["--out", "/"], "--out"),
    ],
)
def test_bad_input(
    arguments: list[str], complaint: str, runs: Runs, out: Path, staticfire: Staticfire
) -> None:
    said = table(staticfire, out, *arguments)
    assert said.status == 254
    assert complaint in said.err
    assert said.err.count("\n") == 1
    assert runs.made == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("[]", "line 2 is b'[]'; allowed: a row of `staticfire table`"),
        ("not JSON", "line 2 is b'not JSON'"),
        ('{"target": 5}', "line 2: target is 5; allowed: a row of `staticfire table`"),
        ('{"target": "own"}', "line 2: campaign is None"),
    ],
)
def test_a_file_that_is_no_table(
    line: str, complaint: str, runs: Runs, out: Path, staticfire: Staticfire
) -> None:
    table(staticfire, out, "--campaigns", "default")
    with out.open("a") as file:
        file.write(line + "\n")
    said = table(staticfire, out, "--print")
    assert (said.status, complaint in said.err) == (254, True), said.err


def test_a_campaign_that_plants_a_defect_is_refused(
    runs: Runs, out: Path, staticfire: Staticfire, tmp_path: Path
) -> None:
    campaign = tmp_path / "planted.toml"
    campaign.write_text('[campaign]\ndefect = "ack-before-fsync"\n')
    said = table(staticfire, out, "--campaigns", campaign)
    assert said.status == 254
    assert "plants the defect ack-before-fsync; allowed in a table" in said.err
