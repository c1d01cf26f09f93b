"""Bad input: one sentence on stderr and status 254, before anything is started or written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cli.conftest import Said, Staticfire

CAMPAIGN_FILES = {
    "empty.toml": b"",
    "half.toml": b"[campaign]\nslaves = [1",
    "binary.toml": b"\xff\xfe\x00\x01",
    "fraction.toml": b"[campaign]\nslaves = [1.5]\n",
    "kinds.toml": b"[campaign]\nfaults = [1]\n",
    "unknown-option.toml": b"[campaign]\nspeed = 3\n",
    "not-a-number.toml": b"[campaign]\ntime_s = nan\n",
    "endless-fault.toml": b"[campaign]\nplan = [{kind = 'kill', at_s = inf, duration_s = 1.0, "
    b"targets = ['broker-a-0']}]\n",
    "negative.toml": b"[campaign]\nacks_min = -1\n",
    "defect.toml": b"[campaign]\ndefect = 'nope'\n",
    "long-number.toml": b"[campaign]\nseed = " + b"9" * 5000,
    "long-hex-number.toml": b"[campaign]\nseed = 0x" + b"f" * 5000,
    "65-bits.toml": b"[campaign]\nacks_min = 18446744073709551616",
    "deep.toml": b"[campaign]\nfaults = " + b"[" * 2000 + b"]" * 2000,
    "large.toml": b"[campaign]\n#" + b"x" * (5 << 20),
    "many-faults.toml": b"[campaign]\nfaults = [" + b"'kill'," * 2000 + b"]",
    "no-params.toml": b"[campaign]\nplan = [{kind = 'disk-full', at_s = 1, duration_s = 1, "
    b"targets = ['broker-a-0']}]\n",
}


def says_one_sentence(said: Said, *words: str) -> None:
    assert said.status == 254
    assert said.err.startswith("staticfire: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    assert said.out == ""
    for word in words:
        assert word in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--workload quue", ("quue", "queue")),
        ("--faults kil", ("kil", "did you mean kill?")),
        ("--faults kill,,pause", ("''", "power-cut")),
        ("--flush maybe", ("maybe", "sync, async")),
        ("--file-system zfs", ("zfs", "ext4", "xfs")),
        ("--replication many", ("many", "sync, async, none")),
        ("--mode faithful --policies leaves", ("leaves", "name_server.leaves")),
        ("--mode faithful --policies visible_end,,offsets", ("''", "visible_end")),
        ("--defect nope", ("nope", "ack-before-fsync")),
        ("--campaign nosuch", ("nosuch", "default")),
        ("--masters 2 --slaves 1,1,1", ("3 masters", "2")),
        ("--masters 0", ("0", "1 to 9")),
        ("--slaves a,b", ("a,b", "2,1")),
        ("--slaves -1", ("-1", "0 to 5")),
        ("--replication none --slaves 1", ("slaves",)),
        ("--replication sync --slaves 0", ("slaves",)),
        ("--batch-messages many", ("many", "whole numbers")),
        ("--batch-messages 5,2", ("(5, 2)", "1 to 1000")),
        ("--batch-messages 1,1001", ("(1, 1001)", "1 to 1000")),
        ("--time -3", ("-3", "1 to 86400")),
        ("--time nan", ("nan", "1 to 86400")),
        ("--time long", ("long",)),
        ("--seed -1", ("-1",)),
        ("--seed 99999999999999999999", ("99999999999999999999",)),
        ("--seed x", ("x",)),
        ("--name-servers 0", ("0", "1 to 9")),
        ("--producers 0", ("0", "1 to 64")),
        ("--consumers 65", ("65", "1 to 64")),
        ("--environment moon", ("moon", "namespaces")),
        ("--environment processes --faults disk-full", ("disk-full", "share the disk")),
        ("--environment ssh", ("--ssh-hosts", "0 hosts")),
        ("--environment ssh --ssh-hosts a:0", ("a:0", "user@host:port")),
        ("--environment ssh --ssh-hosts a,b,a", ("root@a:22", "twice")),
        ("--environment ssh --ssh-key /no/such", ("--ssh-key", "/no/such")),
        ("--environment ssh --ssh-known-hosts /no/such", ("--ssh-known-hosts", "/no/such")),
        ("--environment docker --image A:b", ("--image", "A:b", "small letters")),
        ("--environment docker --image a:b:c", ("--image", "a:b:c")),
        ("--speed 3", ("--speed",)),
        ("surplus", ("surplus",)),
    ],
)
def test_run_refuses(
    arguments: str, words: tuple[str, ...], staticfire: Staticfire, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    says_one_sentence(staticfire("run", "--runs", runs, *arguments.split()), *words)
    assert not runs.exists()


@pytest.mark.parametrize("options", ["--tag a:b:c", "--base A", "--base"])
def test_docker_image_refuses(options: str, staticfire: Staticfire) -> None:
    says_one_sentence(staticfire("docker-image", *options.split()), options.split()[0])


def test_run_refuses_choices_none_of_which_can_be_carried_out(
    staticfire: Staticfire, tmp_path: Path
) -> None:
    campaign = tmp_path / "choices.toml"
    campaign.write_text(
        "[campaign]\nenvironment = 'processes'\n[campaign.choices]\nfaults = [['disk-full'], ['kill', 'clock-skew']]\n"
    )
    runs = tmp_path / "runs"
    says_one_sentence(
        staticfire("run", "--runs", runs, "--campaign", campaign), "disk-full", "share the disk"
    )
    assert not runs.exists()


@pytest.mark.parametrize("name", CAMPAIGN_FILES)
def test_run_refuses_a_campaign_file(name: str, staticfire: Staticfire, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(CAMPAIGN_FILES[name])
    runs = tmp_path / "runs"
    says_one_sentence(staticfire("run", "--runs", runs, "--campaign", path))
    assert not runs.exists()


@pytest.mark.parametrize("value", ["9" * 6000, "x" * 100_000, "a\nb", "\0", "\udcff", "é"])
@pytest.mark.parametrize("option", ["--seed", "--slaves", "--campaign", "--workload", "--defect"])
def test_a_strange_value_is_one_bearable_line(
    option: str, value: str, staticfire: Staticfire, tmp_path: Path
) -> None:
    said = staticfire("run", "--runs", tmp_path / "runs", option, value)
    says_one_sentence(said)
    assert len(said.err) < 800
    assert not (tmp_path / "runs").exists()


def test_run_refuses_a_client_that_cannot_be_started(
    staticfire: Staticfire, tmp_path: Path
) -> None:
    where = ("--environment", "processes", "--runs", tmp_path / "runs")
    for command in ("run", "conform"):
        given = where if command == "run" else ()
        said = staticfire(command, *given, "--client", "./no-client -v")
        says_one_sentence(said, "there is no program ./no-client; allowed: own, cpp or a command")


def test_run_refuses_a_campaign_without_a_name(staticfire: Staticfire, tmp_path: Path) -> None:
    says_one_sentence(staticfire("run", "--runs", tmp_path / "runs", "--campaign", ""))


def test_run_refuses_a_folder_that_cannot_be_made(staticfire: Staticfire, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    says_one_sentence(staticfire("run", "--seed", 1, "--runs", tmp_path / "file"))
    says_one_sentence(staticfire("run", "--seed", 1, "--runs", tmp_path / "file" / "below"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--seeds a-b", ("a-b", "0-99")),
        ("--seeds 9-3", ("9-3", "first seed is above its last", "FIRST-LAST, such as 0-99")),
        ("--seeds 1-", ("'1-'", "0-99")),
        ("--seeds 0-9223372036854775808", ("0 to 9223372036854775807",)),
        ("--seeds 1-9999999", ("1000000",)),
        ("--jobs 0", ("0", "1 to 256")),
        ("--workload quue", ("quue",)),
        ("--defect nope", ("nope",)),
    ],
)
def test_hunt_refuses_and_leaves_an_older_result(
    arguments: str, words: tuple[str, ...], staticfire: Staticfire, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("older\n")
    says_one_sentence(staticfire("hunt", "--out", out, *arguments.split()), *words)
    assert out.read_text() == "older\n"


def test_hunt_tries_its_output_before_the_work(staticfire: Staticfire, tmp_path: Path) -> None:
    out = tmp_path / "nowhere" / "out.jsonl"
    says_one_sentence(staticfire("hunt", "--seeds", "0-0", "--out", out), "nowhere")


@pytest.mark.parametrize("command", ["check", "replay"])
def test_a_folder_that_holds_no_run_is_refused(
    command: str, staticfire: Staticfire, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for name in ("nowhere", "empty", "file"):
        says_one_sentence(staticfire(command, tmp_path / name), name)
    says_one_sentence(staticfire(command), "RUN")


def test_no_command_and_an_unknown_one(staticfire: Staticfire) -> None:
    says_one_sentence(staticfire())
    says_one_sentence(staticfire("attack"), "attack")
