"""Resources are listed before they are made; the rest is removed in the right order, and nothing else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.executor import Executor
from staticfire.faults.linux.inventory import Inventory, clean, journals, read_journal
from staticfire.faults.linux.resources import KINDS, Resource, removal_argv, removal_order
from tests.support.recording_executor import RecordingExecutor, failing


def mount(name: str) -> Resource:
    return Resource(kind="mount", name=name)


def test_a_journal_tells_what_is_left(tmp_path: Path) -> None:
    inventory = Inventory.begin(tmp_path)
    for name in ("/a/1", "/a/2", "/a/3", "/a/1"):
        inventory.will_make(mount(name))
    inventory.is_gone(mount("/a/2"))
    inventory.is_gone(mount("/never/made"))
    assert [resource.name for resource in inventory.made] == ["/a/1", "/a/3"]
    journal = read_journal(inventory.path)
    assert journal.left == (mount("/a/1"), mount("/a/3"))
    assert journal.owner.is_alive
    inventory.close()
    assert journals(tmp_path) == [inventory.path]


def test_an_empty_inventory_leaves_no_file(tmp_path: Path) -> None:
    inventory = Inventory.begin(tmp_path)
    inventory.will_make(mount("/a/1"))
    inventory.is_gone(mount("/a/1"))
    inventory.close()
    assert journals(tmp_path) == []


def test_a_line_is_on_file_before_the_thing_is_made(tmp_path: Path) -> None:
    inventory = Inventory.begin(tmp_path)
    inventory.will_make(mount("/a/1"))
    assert json.loads(inventory.path.read_bytes().splitlines()[-1])["will_make"]["name"] == "/a/1"
    inventory.close()


def test_a_torn_last_line_means_that_nothing_was_made(tmp_path: Path) -> None:
    inventory = Inventory.begin(tmp_path)
    inventory.will_make(mount("/a/1"))
    inventory.will_make(mount("/a/2"))
    inventory.close()
    inventory.path.write_bytes(inventory.path.read_bytes()[:-5])
    assert read_journal(inventory.path).left == (mount("/a/1"),)


@pytest.mark.parametrize(
    "text", ["", "{}\n", "nonsense\n", '{"pid":1,"start_ticks":"1","boot_id":"x"}\n{"gone":{}}\n']
)
def test_a_file_that_is_no_inventory_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.inventory.jsonl"
    path.write_text(text)
    with pytest.raises(FaultError, match="is no inventory"):
        read_journal(path)


def test_two_runs_never_share_a_journal(tmp_path: Path) -> None:
    inventory = Inventory.begin(tmp_path)
    with pytest.raises(FileExistsError):
        Inventory(inventory.path)
    inventory.close()


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert journals(folder) == []
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(FaultError, match="not ours alone to write"):
        Inventory.begin(folder)
    with pytest.raises(FaultError, match="not ours alone to write"):
        journals(folder)


def test_an_owner_of_another_boot_is_dead(tmp_path: Path) -> None:
    inventory = Inventory.begin(tmp_path)
    inventory.will_make(mount("/a/1"))
    inventory.close()
    header, line, _ = inventory.path.read_text().split("\n")
    changed = {**json.loads(header), "boot_id": "another"}
    inventory.path.write_text(f"{json.dumps(changed)}\n{line}\n")
    assert not read_journal(inventory.path).owner.is_alive
    changed = {**json.loads(header), "start_ticks": "1"}
    inventory.path.write_text(f"{json.dumps(changed)}\n{line}\n")
    assert not read_journal(inventory.path).owner.is_alive


def test_order_processes_first_then_what_was_made_last() -> None:
    made = [
        Resource(kind="folder", name="/run/x/disk"),
        mount("/run/x/disk/device"),
        Resource(kind="loop device", name="/run/x/disk/device/image"),
        mount("/run/x/disk/mounted"),
        Resource(kind="network namespace", name="sfx-a"),
        Resource(kind="nft table", name="inet staticfire", prefix=("nsenter",)),
        Resource(kind="cgroup", name="/sys/fs/cgroup/blkio/x", details={"home": "/"}),
        Resource(kind="marked processes", name="STATICFIRE_RUN=x"),
    ]
    assert [resource.kind for resource in removal_order(made)] == [
        "marked processes",
        "nft table",
        "cgroup",
        "mount",
        "loop device",
        "mount",
        "network namespace",
        "folder",
    ]
    assert removal_order(made)[3].name == "/run/x/disk/mounted"


def test_a_removal_runs_behind_the_prefix_and_gets_its_details() -> None:
    resource = Resource(
        kind="qdisc", name="eth0", prefix=("nsenter", "-n"), details={"handle": "5f1e:"}
    )
    argv = removal_argv(resource)
    assert argv[:4] == ["nsenter", "-n", "sh", "-c"]
    assert argv[4] == KINDS["qdisc"].script
    assert argv[5:] == ["sh", "eth0", "5f1e:"]


@pytest.mark.parametrize("name", ["/", "/tmp", "relative/path", "/a/../../b", ""])
def test_a_folder_that_no_run_can_own_is_not_removed(name: str) -> None:
    with pytest.raises(FaultError, match="two names deep or more"):
        removal_argv(Resource(kind="folder", name=name))


def journal_with(tmp_path: Path, *resources: Resource) -> Path:
    inventory = Inventory.begin(tmp_path)
    for resource in resources:
        inventory.will_make(resource)
    inventory.close()
    return inventory.path


def test_clean_goes_on_after_an_error_and_keeps_the_journal(tmp_path: Path) -> None:
    path = journal_with(tmp_path, mount("/a/1"), Resource(kind="link", name="sfx"))
    executor = RecordingExecutor()
    executor.answers = {
        f"sh -c {KINDS['mount'].script}": failing("target is busy"),
        "sh": "removed\n",
    }

    def executor_of(host: str) -> Executor:
        return executor

    removals = asyncio.run(clean(read_journal(path), executor_of))
    assert [(r.resource.name, r.removed) for r in removals] == [("/a/1", False), ("sfx", True)]
    assert "target is busy" in removals[0].error
    assert path.exists()
    executor.answers = {}
    removals = asyncio.run(clean(read_journal(path), executor_of))
    assert [(r.removed, r.error) for r in removals] == [(False, ""), (False, "")]
    assert not path.exists()


def test_what_a_failure_lies_in_is_kept(tmp_path: Path) -> None:
    """Without the mount that holds its file, a loop device could not be distinguished from others."""
    device = Resource(kind="loop device", name="/run/x/device/image")
    made = (Resource(kind="folder", name="/run/x"), mount("/run/x/device"), device, mount("/run/y"))
    path = journal_with(tmp_path, *made)
    executor = RecordingExecutor()
    executor.answers = {
        f"sh -c {KINDS['loop device'].script}": failing("a process has it open"),
        "sh": "removed\n",
    }
    removals = asyncio.run(clean(read_journal(path), lambda _: executor))
    assert [(str(r.resource), r.removed, r.error) for r in removals] == [
        ("mount /run/y", True, ""),
        ("loop device /run/x/device/image", False, "a process has it open"),
        ("mount /run/x/device", False, "kept for loop device /run/x/device/image"),
        ("folder /run/x", False, "kept for loop device /run/x/device/image"),
    ]
    assert path.exists()


def test_what_was_in_a_namespace_went_with_it(tmp_path: Path) -> None:
    table = Resource(kind="nft table", name="inet staticfire", prefix=("nsenter", "--net=/gone"))
    path = journal_with(tmp_path, table)
    executor = RecordingExecutor()
    executor.answers = {"nsenter": failing("nsenter: cannot open /gone: No such file or directory")}
    assert [r.error for r in asyncio.run(clean(read_journal(path), lambda _: executor))] == [""]


def test_a_command_missing_in_a_namespace_is_an_error(tmp_path: Path) -> None:
    table = Resource(kind="nft table", name="inet staticfire", prefix=("nsenter", "--net=/x"))
    path = journal_with(tmp_path, table)
    executor = RecordingExecutor()
    text = "nsenter: failed to execute sh: No such file or directory"
    executor.answers = {"nsenter": failing(text, 127)}
    assert text in asyncio.run(clean(read_journal(path), lambda _: executor))[0].error


def test_each_host_has_its_executor(tmp_path: Path) -> None:
    path = journal_with(
        tmp_path, mount("/a/1"), Resource(kind="mount", name="/a/1", host="machine-2")
    )
    executors = {"": RecordingExecutor(), "machine-2": RecordingExecutor()}
    asyncio.run(clean(read_journal(path), executors.__getitem__))
    assert [len(executor.commands) for executor in executors.values()] == [1, 1]
