"""`staticfire clean`: removes the leftovers of a killed harness, and nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.faults.linux.inventory import Inventory
from staticfire.faults.linux.resources import Resource
from tests.harness.cli.conftest import Said, Staticfire
from tests.support.leftovers import find_leftovers

ROOT = Path(__file__).parents[3]


def killed_inventory(folder: Path, *names: str) -> Inventory:
    """As of a harness that is dead: its boot is another one."""
    inventory = Inventory.begin(folder)
    for name in names:
        inventory.will_make(Resource(kind="folder", name=name))
    inventory.close()
    header, *lines = inventory.path.read_text().splitlines(keepends=True)
    changed = {**json.loads(header), "boot_id": "another"}
    inventory.path.write_text(json.dumps(changed) + "\n" + "".join(lines))
    return inventory


def test_nothing_to_clean(staticfire: Staticfire, tmp_path: Path) -> None:
    assert staticfire("clean", "--state", tmp_path) == Said(0, "nothing to clean\n", "")


def test_a_folder_goes_and_its_neighbour_stays(staticfire: Staticfire, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    inventory = killed_inventory(tmp_path / "state", str(ours), f"{tmp_path}/never made")
    said = staticfire("clean", "--state", tmp_path / "state", "--dry-run")
    assert said.out == f"is left   folder {tmp_path}/never made\nis left   folder {ours}\n"
    assert ours.exists()
    said = staticfire("clean", "--state", tmp_path / "state")
    assert said.out == f"was gone  folder {tmp_path}/never made\nremoved   folder {ours}\n"
    assert said.status == 0
    assert not ours.exists()
    assert theirs.exists()
    assert not inventory.path.exists()


def test_a_run_that_goes_on_is_left_alone(staticfire: Staticfire, tmp_path: Path) -> None:
    inventory = Inventory.begin(tmp_path / "state")
    inventory.will_make(Resource(kind="folder", name=str(tmp_path)))
    said = staticfire("clean", "--state", tmp_path / "state")
    assert said == Said(0, f"running   process {os.getpid()} keeps {inventory.path}\n", "")
    assert tmp_path.exists()
    inventory.close()


def test_a_run_that_ends_meanwhile_has_cleaned_up(staticfire: Staticfire, tmp_path: Path) -> None:
    (tmp_path / "abc123.inventory.jsonl").symlink_to(tmp_path / "gone")  # listed, but not there
    assert staticfire("clean", "--state", tmp_path) == Said(0, "nothing to clean\n", "")


def test_a_second_clean_waits_for_the_first_and_finds_nothing(
    staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    inventory = killed_inventory(tmp_path / "state", str(ours))
    locked: list[int] = []

    def first_one_ends(descriptor: int, how: int) -> None:
        locked.append(how)
        ours.rmdir()
        inventory.path.unlink()

    monkeypatch.setattr(fcntl, "flock", first_one_ends)
    said = staticfire("clean", "--state", tmp_path / "state")
    assert (said, locked) == (Said(0, "nothing to clean\n", ""), [fcntl.LOCK_EX])


def test_what_cannot_be_removed_is_status_255(staticfire: Staticfire, tmp_path: Path) -> None:
    inventory = killed_inventory(tmp_path / "state", "/")
    said = staticfire("clean", "--state", tmp_path / "state")
    assert said.status == 255
    assert said.out.startswith("failed    folder /: folder '/' is not removed; allowed")
    assert inventory.path.exists()
    said = staticfire("clean", "--state", tmp_path / "state", "--json")
    assert json.loads(said.out)[0]["resources"][0]["outcome"] == "failed"


def test_a_damaged_inventory_is_reported(staticfire: Staticfire, tmp_path: Path) -> None:
    (tmp_path / "x.inventory.jsonl").write_text("nonsense\n")
    said = staticfire("clean", "--state", tmp_path)
    assert said.status == 255
    assert "is no inventory" in said.out


def test_a_malformed_host_is_reported(staticfire: Staticfire, tmp_path: Path) -> None:
    inventory = killed_inventory(tmp_path / "state", "/a/b/c")
    inventory.path.write_text(inventory.path.read_text().replace('"host": ""', '"host": "no host"'))
    said = staticfire("clean", "--state", tmp_path / "state")
    assert said.status == 255
    assert "'no host'; allowed: user@host:port" in said.out


def test_bad_folders(staticfire: Staticfire, tmp_path: Path) -> None:
    said = staticfire("clean", "--state", tmp_path / "missing")
    assert said.status == 254
    assert "which is no folder" in said.err
    tmp_path.chmod(0o777)
    said = staticfire("clean", "--state", tmp_path)
    assert said.status == 254
    assert "not ours alone to write" in said.err


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("nft", "ip", "tc", "mkfs.ext4", "losetup")
def test_after_kill_9_of_a_harness(staticfire: Staticfire, tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "1000"])
    script = ROOT / "tests" / "support" / "killed_harness.py"
    harness = subprocess.Popen(
        [sys.executable, script, tmp_path],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert harness.stdout is not None
        line = harness.stdout.readline()
        assert staticfire("clean", "--state", tmp_path).out.startswith("running ")
        harness.kill()
        harness.wait()
        reported = json.loads(line)
        names = (reported["identity"], str(tmp_path))
        assert len(find_leftovers(*names)) >= 8
        said = staticfire("clean", "--state", tmp_path)
        assert said.status == 0, said.out
        assert find_leftovers(*names) == []
        assert list(tmp_path.iterdir()) == []
        assert set(reported["kinds"]) == {
            *("folder", "network namespace", "link", "nft table", "qdisc"),
            *("mount", "loop device", "marked processes", "cgroup"),
        }
        assert staticfire("clean", "--state", tmp_path).out == "nothing to clean\n"
        assert bystander.poll() is None
    finally:
        for process in (harness, bystander):
            process.kill()
            process.wait()
        assert harness.stdout is not None
        harness.stdout.close()


def test_a_state_folder_that_is_a_file_is_no_clean_machine(
    staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch(mode=0o600)
    monkeypatch.setenv("STATICFIRE_STATE", str(tmp_path / "file"))
    said = staticfire("clean")
    assert said.status == 254
    assert "$STATICFIRE_STATE" in said.err
    said = staticfire("run", "--environment", "processes", "--runs", tmp_path / "runs")
    assert said.status == 255
    assert "$STATICFIRE_STATE" in said.err
    assert "Traceback" not in said.err
