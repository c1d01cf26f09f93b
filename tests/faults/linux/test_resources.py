"""Removals that no other test of the mechanics comes by: processes by their mark and their start, containers."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from staticfire.faults.linux.executor import LocalExecutor
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.resources import Resource, remove_resource
from tests.support.sleeper import STUBBORN, sleeper

pytestmark = pytest.mark.real


def remove(resource: Resource) -> bool:
    return asyncio.run(remove_resource(resource, LocalExecutor()))


def test_marked_processes_and_no_others(machine: LinuxMachine) -> None:
    identity = machine.inventory.identity
    marked = Resource(kind="marked processes", name=f"STATICFIRE_RUN={identity}")
    assert not remove(marked)
    other = {**os.environ, "STATICFIRE_RUN": f"{identity}0"}
    ours = {**os.environ, "STATICFIRE_RUN": identity}
    with sleeper(environment=other) as spared, sleeper(STUBBORN, ours) as stubborn:
        with sleeper(environment=ours) as stopped:
            stopped.send_signal(19)
            assert remove(marked)
            assert stopped.wait() == -9
        assert stubborn.wait() == -9
        assert spared.poll() is None
    assert not remove(marked)


def test_a_process_by_its_start(machine: LinuxMachine) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with sleeper() as child:
        start_ticks = Path(f"/proc/{child.pid}/stat").read_text().split()[21]

        def process(start_ticks: str, boot_id: str) -> Resource:
            details = {"start_ticks": start_ticks, "boot_id": boot_id}
            return Resource(kind="process", name=str(child.pid), details=details)

        assert not remove(process("1", boot_id))
        assert not remove(process(start_ticks, "another boot"))
        assert child.poll() is None
        assert remove(process(start_ticks, boot_id))
        assert not remove(process(start_ticks, boot_id))


def docker(*arguments: str, input: bytes = b"") -> str:
    argv = ["docker", *arguments]
    return subprocess.run(argv, input=input, capture_output=True, check=True).stdout.decode()


@pytest.mark.needs_docker
def test_containers_and_networks_by_their_label(machine: LinuxMachine) -> None:
    identity = machine.inventory.identity
    name = f"staticfire-test-{identity}"
    label, other = f"staticfire.run={identity}", f"staticfire.run={identity}0"
    containers = Resource(kind="containers", name=label)
    networks = Resource(kind="container networks", name=label)
    image = docker("import", "-", input=bytes(10240)).strip()  # an empty archive
    try:
        docker("network", "create", "--label", label, name)
        docker("create", "--label", label, "--network", name, image, "/nothing")
        spared = docker("create", "--label", other, image, "/nothing").strip()
        assert remove(containers)
        assert remove(networks)
        assert not remove(containers)
        assert not remove(networks)
        docker("rm", spared)  # it is there
    finally:
        docker("rmi", image)
