"""The abilities of a machine, and the sentence for each that it lacks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from staticfire.faults.linux.abilities.survey import Capability, java_version, survey
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine
from tests.support.leftovers import find_leftovers
from tests.support.recording_executor import RecordingExecutor, failing, recording_machine


def surveyed(machine: LinuxMachine, folder: str = "/a/b") -> dict[str, Capability]:
    found = asyncio.run(survey(machine, folder))
    assert len({capability.name for capability in found}) == len(found)
    return {capability.name: capability for capability in found}


def healthy(executor: RecordingExecutor) -> None:
    """Answers of a machine that can do everything but what a test changes."""
    executor.answers |= {
        "id -u": "0\n",
        "sh -c \nif": "v1\n",
        "sh -c command": 'openjdk version "17.0.2" 2022\n',
        "sh -c \nfor": "/usr/lib/x/faketime/libfaketimeMT.so.1\n",
        "losetup": "/dev/loop9\n",
        "python3 - in-use": "false\n",
        "python3 - compare": '{"lost_bytes": 0, "files_changed": [], "files_gone": []}',
        "python3 - /a/b": '{"write": null, "fsync": "EIO", "fsync_ns": [1]}',
        "env LD_PRELOAD": "5000\n",
        "date": "5000\n",
        "dumpe2fs": "  Free blocks: 10-20\n",
    }


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "1.8.0_372"\nOpenJDK Runtime', 8),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21"', 21),
        ("bash: nonsense", 0),
    ],
)
def test_java_versions(said: str, version: int) -> None:
    assert java_version(said) == version


def test_who_is_not_root_makes_nothing(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    healthy(executor)
    executor.answers["id -u"] = "1000\n"
    found = surveyed(machine)
    assert found["processes"].available
    assert found["java"].available
    assert found["libfaketime"].reason == "a step of 3600000 ms moved the clock by 0 ms"
    for name in ("root", "namespaces", "nftables", "netem", "loop ext4", "shutdown xfs"):
        assert found[name].advice == "needs root"
    assert not any("mount" in line or "unshare" in line for line in executor.lines)
    machine.inventory.close()


def test_a_command_that_is_not_there_comes_with_its_package(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    healthy(executor)
    executor.answers |= {
        "unshare --net -- nft": failing(
            "unshare: failed to execute nft: No such file or directory"
        ),
        "docker": CommandFailed(["docker", "version"], 127, "cannot be started: No such file"),
        "mkfs.xfs": CommandFailed(["mkfs.xfs", "-q"], 127, "cannot be started: No such file"),
        "sh -c \nfor": "",
    }
    found = surveyed(machine)
    assert found["nftables"].advice == "there is no command nft; apt install nftables"
    assert found["docker"].advice == "there is no command docker; apt install docker.io"
    assert found["libfaketime"].advice.endswith("install the package libfaketime")
    assert found["libfaketime"].package == "libfaketime"
    assert found["loop xfs"].advice == "there is no command mkfs.xfs; apt install xfsprogs mount"
    assert found["shutdown xfs"].reason == found["loop xfs"].reason  # it needs the disk
    assert machine.inventory.made == []
    machine.inventory.close()


def test_what_the_kernel_refuses_is_not_to_be_installed(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    healthy(executor)
    executor.answers |= {
        "unshare --net -- tc qdisc add dev lo root netem": failing(
            "Error: Specified qdisc kind is unknown."
        ),
        "mount -t xfs": failing("mount: /a: unknown filesystem type 'xfs'."),
        "docker": failing("Cannot connect to the Docker daemon. Is the docker daemon running?"),
    }
    found = surveyed(machine)
    assert found["netem"].advice == "the kernel has no netem (CONFIG_NET_SCH_NETEM)"
    assert found["loop xfs"].advice == "mount: /a: unknown filesystem type 'xfs'."
    assert found["docker"].advice.startswith("Cannot connect")
    machine.inventory.close()


def test_an_old_java(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    healthy(executor)
    executor.answers["sh -c command"] = 'java version "1.7.0_80"\n'
    assert surveyed(machine)["java"].reason == (
        "needs Java 8 or newer, this is 'java version \"1.7.0_80\"'"
    )
    machine.inventory.close()


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("ip", "nft", "tc", "mkfs.ext4", "mkfs.xfs", "losetup", "libfaketime")
def test_this_machine(machine: LinuxMachine, tmp_path: Path) -> None:
    found = surveyed(machine, f"{tmp_path}/survey")
    for name in ("root", "processes", "namespaces", "nftables", "tbf", "libfaketime"):
        assert found[name].available, found[name]
    for name in ("loop ext4", "shutdown ext4", "failing fsync", "loop xfs", "shutdown xfs"):
        assert found[name].available, found[name]
    assert find_leftovers(str(tmp_path)) == []
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
