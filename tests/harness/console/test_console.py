"""The report on the console: at most 25 lines that name the message, the promise and the command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import NodeExit
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import CLIENT_CHECKERS, RunVerdict, check_run
from staticfire.harness.console import console
from staticfire.harness.console.console import LINES_MAX, campaign_lines, print_result
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.machines.options import MachineOptions, SshHost
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.report.verdict_lines import WIDTH, first_violations, verdict_lines
from staticfire.harness.results.run_result import RunResult
from tests.support.history_language import facts, history

CAMPAIGN = draw_campaign(1, {"faults": ("kill", "pause"), "broker_properties": ()})
FOLDER = Path("runs/20261120-101500-queue-1")


def result(ops: list[Op], bitten: bool = True) -> RunResult:
    return RunResult(
        campaign=CAMPAIGN,
        verdict=check_run(ops, [], facts()),
        facts=facts(),
        ops=ops,
        observations=[],
        faults=[
            FaultRecord(planned=planned, fired_ns=1, bitten=bitten) for planned in CAMPAIGN.plan
        ],
        digest="d" * 64,
        nodes=[],
        up_s=1.5,
        run_s=61.5,
    )


def printed(run: RunResult, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_result(run, FOLDER, 1.25)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("given", "provider", "more"),
    [
        (
            {"target": "apache"},
            MachineOptions(home="/opt/my rocketmq", image="mine:1"),
            " --target apache --image mine:1 --home '/opt/my rocketmq'",
        ),
        (
            {"environment": "ssh"},
            MachineOptions(hosts=(SshHost(name="h"), SshHost(name="i", user="u", port=2))),
            " --ssh-hosts root@h:22,u@i:2",
        ),
        ({}, MachineOptions(), ""),
        (
            {"environment": "namespaces"},
            MachineOptions(file_system="xfs"),
            " --file-system xfs",
        ),
    ],
)
def test_the_command_that_repeats_a_run_on_machines_is_whole(
    given: dict[str, Any], provider: MachineOptions, more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = result(losses(1))
    run = replace(run, campaign=replace(run.campaign, **{"environment": "docker", **given}))
    print_result(run, FOLDER, None, provider)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"repeat    staticfire run --campaign {FOLDER}/campaign.toml{more}"


def losses(count: int) -> list[Op]:
    """So many messages acknowledged and never seen again."""
    sends = [f"{number} ok send k{number}" for number in range(count)]
    return history(*sends, "1 ok send seen", "2 ok consume seen", "3 ok drain")


def test_an_invalid_run_names_message_promise_and_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = printed(result(losses(1)), capsys)
    text = "\n".join(lines)
    assert "verdict   INVALID" in lines
    assert "LOST  key k0  topic t  broker b  queue 0  offset 0" in text
    assert "violation: " in text
    assert lines[-3] == f"explain   staticfire explain {FOLDER}"
    assert lines[-2] == f"shrink    staticfire shrink {FOLDER}"
    assert lines[-1].startswith(f"repeat    staticfire replay {FOLDER}")


def test_only_a_simulated_run_that_is_invalid_can_be_shrunk(
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = result(losses(1))
    real = replace(real, campaign=replace(real.campaign, environment="namespaces"))
    for run in (real, result(losses(0))):
        assert not [line for line in printed(run, capsys) if line.startswith("shrink")]


def test_a_catastrophe_still_fits_and_ends_with_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = printed(result(losses(500)), capsys)
    assert len(lines) <= LINES_MAX == 25
    assert "verdict   INVALID" in lines
    assert lines[-1].startswith("repeat ")


def test_a_long_diagnosis_takes_no_room_from_the_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = printed(result(losses(1)), capsys)
    monkeypatch.setattr(console, "diagnose", lambda _: ["long " * 1000])

    lines = printed(result(losses(1)), capsys)

    assert len(lines) > LINES_MAX
    assert [line for line in lines if "long" not in line] == short


def test_unknown_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(result(history("0 ok send a", "1 ok consume a")), capsys)
    assert "verdict   UNKNOWN" in lines
    assert any("drained" in line for line in lines)


def test_the_summary_counts_sends_by_how_they_ended(capsys: pytest.CaptureFixture[str]) -> None:
    ops = history("0 ok send a", "0 ok send b", "0 info send c", "0 fail send d", "1 ok consume a")
    first = printed(result(ops), capsys)[0]
    assert "2 acknowledged, 1 unclear, 1 refused; 1 deliveries" in first
    assert "61.5 virtual s" in first
    assert "1.25 CPU s" in first


@pytest.mark.parametrize(("bitten", "words"), [(True, "kinds proven: "), (False, "never bit: ")])
def test_faults_are_named_by_whether_they_bit(
    bitten: bool, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\n".join(printed(result(history("0 ok send a"), bitten), capsys))
    for kind in {planned.kind for planned in CAMPAIGN.plan}:
        assert kind in text.split(words)[1].splitlines()[0]


def test_faults_of_a_run_that_was_cut_short_were_never_fired(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cut = result(history("0 ok send a"), bitten=False)
    for record in cut.faults:
        record.fired_ns = None
    text = "\n".join(printed(cut, capsys))
    assert "never fired: " in text
    assert "never bit" not in text


def test_the_most_important_lines_of_a_verdict_come_first() -> None:
    lines = verdict_lines(check_run(losses(3), [], facts()))
    assert lines[0] == "verdict   INVALID"
    assert any("LOST  key k0" in line for line in lines[:4])


def test_campaign_and_verdict_say_that_the_mode_is_faithful() -> None:
    assert "FAITHFUL" in campaign_lines(replace(CAMPAIGN, mode="faithful"))[0]
    verdict = check_run(losses(3), [], facts(mode="faithful"))
    assert verdict_lines(verdict)[0] == "verdict   INVALID, faithful mode"
    assert RunVerdict.from_json(verdict.to_json()) == verdict


def test_a_valid_run_says_what_each_checker_proved() -> None:
    ops = history("0 ok send a", "1 ok consume a", "9 ok probe b", "3 ok drain")
    verdict = check_run(ops, [], facts(), CLIENT_CHECKERS)
    answer, *lines = verdict_lines(verdict)
    proofs = " ".join(lines)
    assert answer == "verdict   VALID"
    assert max(map(len, lines)) <= WIDTH
    assert "loss ok (acked 1" in proofs
    assert proofs.count(" ok") == len(verdict.verdicts)


def test_a_campaign_is_printed_whole_with_every_fault() -> None:
    lines = campaign_lines(replace(CAMPAIGN, defect="ack-before-fsync"))
    assert lines[0] == "seed 1  workload queue  60 virtual s  DEFECT ack-before-fsync"
    assert [line.split()[1] for line in lines[4:]] == [fault.kind for fault in CAMPAIGN.plan]
    assert max(map(len, lines[4:])) <= WIDTH


def test_each_anomaly_is_reported_once_and_a_loss_before_earlier_findings() -> None:
    exits = (
        NodeExit(node="n0", time_ns=1, error="first"),
        NodeExit(node="n0", time_ns=2, error="second"),
    )
    verdict = check_run(losses(3), [], facts(exits=exits))
    assert [finding.anomaly for finding in first_violations(verdict)][:2] == ["lost", "node_died"]
    reported = "\n".join(verdict_lines(verdict))
    assert ("first" in reported, "second" in reported) == (True, False)


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        ({"slowest_recovery_ms": 7, "never_recovered": 0}, "ok (slowest_recovery_ms 7)"),
        ({"never_recovered": 1}, "not ended (never_recovered 1)"),
    ],
)
def test_a_recovery_that_never_ended_is_not_ok(counts: dict[str, int], word: str) -> None:
    measured = Verdict(checker="recovery_times", valid=True, counts=counts)
    verdict = replace(check_run(losses(0), [], facts()), valid=True, verdicts=(measured,))
    assert verdict_lines(verdict)[-1] == f"  recovery_times {word}"


def test_a_verdict_does_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    run = result([])
    verdict = replace(run.verdict, caveats=("key \x1b[2J",))
    assert r"  note: key \x1b[2J" in verdict_lines(verdict)
    assert "\x1b" not in "".join(printed(replace(run, verdict=verdict), capsys))
