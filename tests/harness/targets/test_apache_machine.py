"""Java and a distribution on a machine: the check script in a local shell, and one sentence for each refusal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.options import MachineOptionError, MachineOptions
from staticfire.harness.rocketmq.assembly.target_choice import check_target, version_of
from staticfire.harness.targets.apache_machine import (
    DistributionError,
    MachineFacts,
    check_machine,
    question,
)
from staticfire.harness.targets.java import version_in

JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
CAMPAIGN = draw_campaign(1, {"environment": "processes", "target": "apache", "faults": ()})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "rocketmq"
    (folder / "lib").mkdir(parents=True)
    for name in ("rocketmq-broker-4.9.8.jar", "rocketmq-namesrv-4.9.8.jar", "netty.jar"):
        (folder / "lib" / name).touch()
    return folder


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command that JAVA_HOME names: Java 17, until a test writes another one."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    command = tmp_path / "bin" / "java"
    command.parent.mkdir()
    command.touch(0o755)
    does(command, JAVA_17)
    return command


def does(command: Path, script: str) -> None:
    command.write_text(f"#!/bin/sh\n{script}\n")


def asked(home: Path | str, timeout_s: float = 10.0) -> MachineFacts:
    argv = question(str(home), timeout_s)
    return MachineFacts.read(
        subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    )


def refusal(home: Path | str, error: type[Exception], timeout_s: float = 10.0) -> str:
    with pytest.raises(error) as caught:
        check_machine(asked(home, timeout_s), str(home), " on root@a:22")
    said = str(caught.value)
    assert "\n" not in said
    assert " on root@a:22" in said
    return said


# --- the distribution


def test_a_distribution_has_a_broker_and_a_name_server(home: Path) -> None:
    check_machine(asked(home), str(home))
    (home / "lib" / "rocketmq-namesrv-4.9.8.jar").unlink()
    assert "has no lib/rocketmq-namesrv-*.jar on root" in refusal(home, DistributionError)


def rename_broker(home: Path, version: str) -> None:
    broker = home / "lib" / "rocketmq-broker-4.9.8.jar"
    broker.rename(broker.with_name(f"rocketmq-broker-{version}.jar"))


@pytest.mark.parametrize("version", ["4.9.8-SNAPSHOT", "5.3.1", "10.0.0"])
def test_a_distribution_of_4_9_or_later(home: Path, version: str) -> None:
    rename_broker(home, version)
    facts = asked(home)
    check_machine(facts, str(home))
    assert facts.version == version


@pytest.mark.parametrize("version", ["4.8.0", "next"])
def test_a_distribution_of_another_version(home: Path, version: str) -> None:
    rename_broker(home, version)
    said = refusal(home, DistributionError)
    assert f"lib/rocketmq-broker-{version}.jar on root" in said
    assert said.endswith("allowed: one version of Apache RocketMQ, 4.9 or 5")


def test_a_distribution_is_of_one_version(home: Path) -> None:
    (home / "lib" / "rocketmq-broker-5.3.1.jar").touch()
    assert "4.9.8.jar, rocketmq-broker-5.3.1.jar on" in refusal(home, DistributionError)


def test_a_folder_that_is_not_there_is_no_distribution() -> None:
    assert "'/no where', and there is no such folder" in refusal("/no where", DistributionError)


def test_the_distribution_is_looked_at_first(java: Path) -> None:
    java.unlink()
    refusal("/nowhere", DistributionError)


# --- Java


@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        ("echo 'java version \"1.7.0_80\"'", "-version said 'java version \"1.7.0_80\"'; install"),
        ("echo 'no such thing'", "-version said 'no such thing'; install"),
        (":", "-version said nothing; install"),
        (f"{JAVA_17}; exit 3", "ended with status 3 and said 'openjdk version"),
        ("kill -9 $$", "had not ended after 20 s"),
    ],
)
def test_java_that_will_not_do(home: Path, java: Path, script: str, wrong: str) -> None:
    does(java, script)
    assert f"{java} -version {wrong.removeprefix('-version ')}" in refusal(home, EnvironmentFailed)


@pytest.mark.parametrize("script", ["exec sleep 60", "sleep 60"])
def test_java_that_does_not_end(home: Path, java: Path, script: str) -> None:
    does(java, script)
    said = refusal(home, EnvironmentFailed, timeout_s=0.05)
    assert f"{java} -version had not ended after 20 s" in said


def test_no_java_in_java_home(home: Path, java: Path) -> None:
    java.unlink()
    assert "JAVA_HOME has no bin/java there" in refusal(home, EnvironmentFailed)


def test_java_that_is_no_program(home: Path, java: Path) -> None:
    java.chmod(0o644)
    assert "Java 8 or later on root@a:22: " in refusal(home, EnvironmentFailed)


def test_java_on_the_path(home: Path, java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", f"{java.parent}:/usr/bin:/bin")
    assert asked(home).java == str(java)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_301"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no such thing", None),
    ],
)
def test_the_version_of_java(said: str, version: int | None) -> None:
    assert version_in(said) == version


# --- this machine, asked for a campaign


def test_this_machine_will_do(home: Path) -> None:
    options = MachineOptions(home=str(home))
    check_target(CAMPAIGN, options)
    assert version_of(CAMPAIGN, options) == "4.9.8"


def test_this_machine_is_asked_once_for_many_runs(home: Path, java: Path) -> None:
    options = MachineOptions(home=str(home))
    check_target(CAMPAIGN, options)
    does(java, "exit 1")
    check_target(CAMPAIGN, options)


def test_a_bad_distribution_is_the_user_s_and_a_bad_java_the_machine_s(
    home: Path, java: Path
) -> None:
    with pytest.raises(MachineOptionError, match="no such folder; allowed"):
        check_target(CAMPAIGN, MachineOptions(home=f"{home}/nowhere"))
    does(java, "exit 1")
    with pytest.raises(EnvironmentFailed, match="Java 8 or later: "):
        check_target(CAMPAIGN, MachineOptions(home=str(home)))
