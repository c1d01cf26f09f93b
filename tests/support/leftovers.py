"""Finds the parts of a run that are still on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.needs import command_path


def lines_of(*argv: str) -> list[str]:
    path = command_path(argv[0])
    if path is None:
        return []
    return subprocess.run([path, *argv[1:]], capture_output=True, text=True).stdout.splitlines()


def find_leftovers(*names: str) -> list[str]:
    """Mounts, loop devices, links, namespaces, cgroups and processes that have one of these in their names."""
    seen = [
        *Path("/proc/mounts").read_text().splitlines(),
        *lines_of("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"),
        *lines_of("ip", "-o", "link"),
        *lines_of("ip", "netns", "list"),
        *lines_of("find", "/sys/fs/cgroup", "-maxdepth", "3", "-type", "d", "-name", "staticfire*"),
        *(f"process {pid}" for name in names for pid in marked_processes(name)),
    ]
    return [line for line in seen if any(name in line for name in names)]


def marked_processes(identity: str) -> list[str]:
    mark = f"STATICFIRE_RUN={identity}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0"):
                found.append(f"{environ.parent.name} of {identity}")
        except OSError:  # it has ended
            continue
    return found
