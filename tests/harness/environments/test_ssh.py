"""SSH hosts: placement of nodes, and the files that are copied. Runs over SSH are end-to-end tests."""

from __future__ import annotations

import asyncio
import io
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from staticfire.faults.linux.network.firewall import Spared
from staticfire.harness.environments.real.ssh.checks import check_host
from staticfire.harness.environments.real.ssh.provider import PACKAGES, UNPACK, pack, share_out
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.options import SshHost
from tests.support.recording_executor import recording_machine

HOSTS = tuple(SshHost(name=f"10.0.0.{number}") for number in range(1, 6))
SERVERS = ("ns-1", "broker-a-0", "broker-a-1")
NODES = (*SERVERS, "producer-1", "producer-2", "consumer-1", "admin")


def test_each_server_has_a_host_of_its_own_and_the_others_share_the_rest() -> None:
    found = share_out(NODES, SERVERS, HOSTS)
    assert [found[server] for server in SERVERS] == list(HOSTS[:3])
    others = [found[node] for node in NODES[3:]]
    assert others == [HOSTS[3], HOSTS[4], HOSTS[3], HOSTS[4]]
    assert tuple(found) == NODES


def test_too_few_hosts_are_refused_with_how_many_it_takes() -> None:
    with pytest.raises(EnvironmentFailed, match="names 3 hosts; this campaign needs 4 or more"):
        share_out(NODES, SERVERS, HOSTS[:3])


def test_a_planted_copy_goes_to_the_hosts_and_the_sound_one_does_not(tmp_path: Path) -> None:
    sound, planted = tmp_path / "sound", tmp_path / "planted"
    for package in PACKAGES:
        (sound / "staticfire" / package / "__pycache__").mkdir(parents=True)
        (sound / "staticfire" / package / "code.py").write_text("sound")
    (planted / "staticfire" / "system_under_test").mkdir(parents=True)
    (planted / "staticfire" / "system_under_test" / "code.py").write_text("planted")
    (planted / "staticfire" / "__init__.py").write_text("face")
    with tarfile.open(fileobj=io.BytesIO(pack([str(planted), str(sound)]))) as archive:
        files = {
            member.name: file.read().decode()
            for member in archive
            if (file := archive.extractfile(member)) is not None
        }
    assert files.pop("staticfire/__init__.py") == "face"
    assert files == {
        f"staticfire/{package}/code.py": "planted" if package == "system_under_test" else "sound"
        for package in PACKAGES
    }


def test_byte_code_goes_along_where_our_python_reads_it(tmp_path: Path) -> None:
    ours, other = f"code.{sys.implementation.cache_tag}.pyc", "code.cpython-399.pyc"
    packed(tmp_path, "code")
    for package in PACKAGES:
        cache = tmp_path / "staticfire" / package / "__pycache__"
        cache.mkdir()
        for name in (ours, other):
            (cache / name).write_text(name)
    with tarfile.open(fileobj=io.BytesIO(pack([str(tmp_path)]))) as archive:
        names = {Path(member.name).name for member in archive if member.isfile()}
    assert names == {ours, "code.py", "__init__.py"}


def unpack(archive: bytes, folder: Path) -> subprocess.CompletedProcess[bytes]:
    argv = ["sh", "-c", UNPACK, "sh", str(folder)]
    return subprocess.run(argv, input=archive, capture_output=True, check=False)


def packed(folder: Path, text: str) -> bytes:
    for package in PACKAGES:
        (folder / "staticfire" / package).mkdir(parents=True)
        (folder / "staticfire" / package / "code.py").write_text(text)
    (folder / "staticfire" / "__init__.py").write_text(text)
    return pack([str(folder)])


def test_hosts_that_share_a_file_system_may_all_unpack(tmp_path: Path) -> None:
    """Nothing that the first one has unpacked is touched again, and nothing else is left."""
    code = tmp_path / "run" / "code"
    first, second = (packed(tmp_path / name, name) for name in ("first", "second"))
    assert [unpack(archive, code).returncode for archive in (first, second)] == [0, 0]
    assert [path.name for path in code.parent.iterdir()] == ["code"]
    assert {(code / "staticfire" / package / "code.py").read_text() for package in PACKAGES} == {
        "first"
    }
    assert stat.S_IMODE(code.stat().st_mode) == 0o755


def test_a_host_where_the_code_cannot_be_brought_says_so(tmp_path: Path) -> None:
    archive = packed(tmp_path / "sound", "code")
    in_the_way = tmp_path / "run" / "code"
    in_the_way.parent.mkdir()
    in_the_way.write_text("a file")
    broken = unpack(archive[: len(archive) // 2], tmp_path / "run" / "other")
    assert broken.returncode != 0
    assert not (tmp_path / "run" / "other").exists()
    refused = unpack(archive, in_the_way)
    assert (refused.returncode, refused.stderr.decode()) == (1, f"{in_the_way} cannot be made\n")


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        (
            "1000\n10.0.0.9 4000 22\n",
            "lets us in, but not as root; allowed: root",
        ),
        ("0\n10.0.0.9 4000 22\nnft\n", "has no command nft; install the package nftables there"),
    ],
)
def test_what_a_host_lacks_is_one_sentence(tmp_path: Path, said: str, reported: str) -> None:
    machine, executor = recording_machine(tmp_path)
    executor.answers = {"sh -c": said}
    with pytest.raises(EnvironmentFailed, match=reported):
        asyncio.run(check_host(machine, "ext4"))
    executor.answers = {"sh -c": "0\n10.0.0.9 4000 22\n"}
    seen = asyncio.run(check_host(machine, "ext4"))
    assert seen == Spared(address="10.0.0.9", port=22)
    machine.inventory.close()
