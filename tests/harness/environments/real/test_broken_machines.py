"""Faults that this host cannot inject into machines: detected before machines are made."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from staticfire.faults.linux.disks.loop_disk import FileSystem
from staticfire.harness.environments.real import broken_machines
from staticfire.harness.environments.real.broken_machines import (
    NETEM_NEEDS,
    lacks_here,
    netem_is_here,
)
from staticfire.harness.environments.real.catalogue import missing_faults
from staticfire.harness.environments.real.namespaces import check_root, tools_for
from staticfire.harness.environments.real.ssh.survey import lacks_of
from staticfire.harness.machines.errors import EnvironmentFailed


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int | Exception]]:
    """Root, and what comes of each attempt to use netem: an exit status or an error."""
    outcomes: list[int | Exception] = []

    def run(argv: Any, **_: Any) -> subprocess.CompletedProcess[bytes]:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return subprocess.CompletedProcess(argv, outcome)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    netem_is_here.cache_clear()
    yield outcomes
    netem_is_here.cache_clear()


def test_a_kernel_with_netem_lacks_nothing_of_it_and_is_asked_once(
    tried: list[int | Exception],
) -> None:
    tried.append(0)
    for _ in range(2):
        assert not NETEM_NEEDS & lacks_here().keys()


@pytest.mark.parametrize(
    "outcome", [2, FileNotFoundError("unshare"), subprocess.TimeoutExpired("tc", 10)]
)
def test_without_netem_a_proxy_delays_and_nothing_is_lost(
    tried: list[int | Exception], outcome: int | Exception
) -> None:
    tried.append(outcome)
    missing = missing_faults(lacks_here())
    assert "network-latency" not in missing
    assert "no netem" in missing["packet-loss"]
    assert "bandwidth" not in missing


def test_without_root_nothing_is_tried(
    tried: list[int | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not NETEM_NEEDS & lacks_here().keys()


def test_on_xfs_no_fsync_fails_alone() -> None:
    missing = missing_faults(lacks_here("xfs"))
    assert "--file-system ext4" in missing["failing-disk"]
    assert "power-cut" not in missing
    assert "failing-disk" not in missing_faults(lacks_here("ext4"))
    assert lacks_of([], [], "xfs")["disk.fail"] == missing["failing-disk"]


@pytest.mark.parametrize(
    ("file_system", "tool", "package"),
    [("ext4", "mkfs.ext4", "e2fsprogs"), ("xfs", "mkfs.xfs", "xfsprogs")],
)
def test_the_file_system_says_which_tool_is_needed(
    monkeypatch: pytest.MonkeyPatch, file_system: FileSystem, tool: str, package: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name, path: None if "mkfs" in name else name)
    with pytest.raises(
        EnvironmentFailed, match=f"the command {tool}; install the package {package}"
    ):
        check_root("namespaces", tools_for(file_system))


def test_disks_of_servers_have_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken_machines, "state_folder", lambda: tmp_path)
    monkeypatch.setattr(broken_machines, "check_room", lambda: None)
    machines = broken_machines.BreakableMachines()
    machines.will_have_disks(["a"], "xfs")
    assert machines._disks["a"].file_system == "xfs"
    asyncio.run(machines.remove_rest())
