"""Shell completion of names, by the protocol of click."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from staticfire.harness.cli import COMMANDS, cli, main
from staticfire.harness.cli.completion import RUNS_MAX, complete_campaign, complete_run, some_of

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """What the command prints for a shell whose user presses TAB at the end of a line."""

    def completed(line: str) -> list[str]:
        monkeypatch.setenv("_STATICFIRE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit) as ended:
            main([])
        out, err = capsys.readouterr()
        assert (ended.value.code, err) == (0, "")
        return [line for line in out.splitlines() if line]

    return completed


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("staticfire sh", ["plain,shrink"]),
        ("staticfire history st", ["plain,stats"]),
        ("staticfire run --workload ord", ["plain,ordered"]),
        ("staticfire hunt --workload queue,ord", ["plain,queue,ordered"]),
        (
            "staticfire run --campaign faithful-lost-i",
            ["file,faithful-lost-i", "plain,faithful-lost-index"],
        ),
        ("staticfire run --faults kill,clock-", ["plain,kill,clock-skew"]),
        ("staticfire run --faults non", ["plain,none"]),
        ("staticfire run --defect ack-before-f", ["plain,ack-before-fsync"]),
        ("staticfire run --flush s", ["plain,sync"]),
        ("staticfire run --environment na", ["plain,namespaces"]),
        ("staticfire run --policies name_server.le", ["plain,name_server.leaves"]),
        ("staticfire run --system r", ["plain,rocketmq"]),
        ("staticfire run --client c", ["plain,cpp"]),
        ("staticfire reproduce ack-before-f", ["plain,ack-before-fsync"]),
        ("staticfire bugs ack-before-f", ["plain,ack-before-fsync"]),
        ("staticfire bugs --checker durable", ["plain,durable_before_ack"]),
        ("staticfire crash-store --policies store.cut", ["plain,store.cut_log"]),
        ("staticfire hunt --anomaly lost_w", ["plain,lost_write"]),
        ("staticfire promises --anomaly lost_w", ["plain,lost_write"]),
        ("staticfire promises --profile pool/none/f", ["plain,pool/none/faithful"]),
        ("staticfire conform --profile broker-c", ["plain,broker-core"]),
        ("staticfire conform --select RMQ-SND-01,RMQ-SND-02", ["plain,RMQ-SND-01,RMQ-SND-02"]),
        ("staticfire conform --environment lo", ["plain,loopback"]),
        ("staticfire table --campaigns default,backl", ["plain,default,backlog"]),
        ("staticfire table --environments processes,do", ["plain,processes,docker"]),
        ("staticfire history filter --f send_b", ["plain,send_back"]),
        ("staticfire explain --js", ["plain,--json"]),
    ],
)
def test_names(line: str, words: list[str], complete: Complete) -> None:
    assert complete(line) == words


def test_commands_are_completed_without_importing_them(complete: Complete) -> None:
    assert complete("staticfire ") == [f"plain,{name}" for name in sorted(COMMANDS)]


@pytest.fixture
def runs(tmp_path: Path, kept_run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three runs, a folder that is none, and names that would break the protocol or the terminal."""
    folder = tmp_path / "runs"
    campaign = (kept_run / "campaign.toml").read_bytes()
    for name in ("20260101-000000-queue-7", "20260102-000000-retry-12", "a\x1b[2J-1", "a\nb-2"):
        (folder / name).mkdir(parents=True)
        (folder / name / "campaign.toml").write_bytes(campaign)
    (folder / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    return folder


def test_runs_newest_first_their_seeds_and_their_nodes(runs: Path, complete: Complete) -> None:
    newest, oldest = "runs/20260102-000000-retry-12", "runs/20260101-000000-queue-7"
    assert complete("staticfire explain ") == ["dir,", f"plain,{newest}", f"plain,{oldest}"]
    assert complete("staticfire check runs/20260101") == ["dir,runs/20260101", f"plain,{oldest}"]
    assert complete(f"staticfire check {runs}/20260101")[1:] == [f"plain,{runs.parent}/{oldest}"]
    assert complete("staticfire run --seed ")[:2] == ["plain,12", "plain,7"]
    assert complete("staticfire run --runs nowhere --seed ") == []
    assert complete(f"staticfire look {oldest} --node bro") == ["plain,broker-a-0"]
    assert complete("staticfire look nowhere --node bro") == []
    assert complete(f"staticfire look {oldest} --what f") == ["plain,files"]
    assert complete("staticfire look nowhere --what f") == []


def test_a_folder_that_cannot_be_read_has_no_runs(tmp_path: Path, complete: Complete) -> None:
    (tmp_path / "file").write_text("")
    assert complete(f"staticfire replay {tmp_path}/file/") == [f"dir,{tmp_path}/file/"]
    assert complete(f"staticfire replay {tmp_path}/{'x' * 5000}/") == [
        f"dir,{tmp_path}/{'x' * 5000}/"
    ]


def test_only_the_newest_of_very_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staticfire.harness.cli.completion.os.path.isfile", lambda _path: True)
    names = [f"run-{number:04}" for number in range(RUNS_MAX + 5)]
    monkeypatch.setattr("staticfire.harness.cli.completion.os.listdir", lambda _path: names)
    found = complete_run(click.Context(cli), click.Argument(["run"]), "x/run-0")
    assert len(found) == 1 + RUNS_MAX
    assert found[1].value == "x/run-0204"


def test_a_name_is_offered_once() -> None:
    items = some_of(["kill", "pause"])(click.Context(cli), click.Option(["--faults"]), "kill,")
    assert [item.value for item in items] == ["kill,pause"]
    first = complete_campaign(click.Context(cli), click.Option(["--campaign"]), "x/")
    assert [(item.type, item.value) for item in first] == [("file", "x/")]


def test_the_lines_of_the_documentation_make_scripts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BashComplete, "_check_version", lambda _self: None)  # there may be no bash
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    for shell, word in (
        ("bash", "complete -o"),
        ("zsh", "compdef"),
        ("fish", "complete --no-files"),
    ):
        assert f"_STATICFIRE_COMPLETE={shell}_source staticfire" in page
        monkeypatch.setitem(os.environ, "_STATICFIRE_COMPLETE", f"{shell}_source")
        with pytest.raises(SystemExit):
            main([])
        assert word in capsys.readouterr().out
