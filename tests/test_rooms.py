"""Rooms: the folders inside a top folder are ordered, and none of them is a long list."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.sources import ROOT, facts_of, modules

MODULES_MAX = 20  # directly in a folder, beside its __init__.py

# Folder -> its rooms, lowest first. A room imports itself, the modules of the folder's root, and rooms before it.
ROOMS: dict[str, tuple[str, ...]] = {
    "checkers": (
        "op_kinds",
        "anomalies",
        "model",
        "guarantees",
        "engine",
        "derived",
        "groups",
        "measures",
        "features",
        "availability",
        "log",
        "white_box",
        "agreement",
        "cycles",
        "verdicts",
        "formats",
    ),
    "checkers/guarantees": ("excuses",),
    "faults": ("model", "kinds", "plans", "linux", "proxy", "defects"),
    "faults/linux": ("on_node", "disks", "network", "abilities"),
    "faults/proxy": ("rocketmq", "core"),
    "spark_analysis": ("engine", "runs", "results", "synthesis"),
    "system_under_test": (
        "runtime",
        "protocol",
        "remoting",
        "filters",
        "store",
        "configuration",
        "acl",
        "client",
        "admin",
        "broker",
        "name_server",
    ),
    "system_under_test/broker": (
        "metadata",
        "statistics",
        "flow_control",
        "clients",
        "registration",
        "replication",
        "sending",
        "delivery",
        "pulling",
        "queries",
        "policies",
        "append_pipeline",
        "administration",
        "assembly",
    ),
    "system_under_test/store": (
        "log",
        "queues",
        "index",
        "appending",
        "reading",
        "recovery",
        "retention",
        "assembly",
        "replication",
    ),
    "system_under_test/client": ("routing", "offsets", "trace", "producer", "consumer"),
    "system_under_test/client/consumer": ("rebalance", "push", "pull"),
    "harness": (
        "simulation",
        "machines",
        "clients",
        "campaign",
        "recording",
        "generators",
        "workloads",
        "results",
        "targets",
        "environments",
        "observers",
        "systems",
        "draws",
        "report",
        "diagnoses",
        "run_folder",
        "histories",
        "local_cluster",
        "rocketmq",
        "runs",
        "continuations",
        "shrink",
        "explain",
        "exports",
        "html_report",
        "console",
        "store_crash",
        "conformance",
        "serve",
        "cli",
        "museum",
        "plugin",
        "pages",
    ),
    "harness/simulation": ("lint", "disk", "scheduling", "network", "hosts"),
    "harness/machines": ("docker", "ssh"),
    "harness/clients": ("cpp",),
    "harness/environments": ("simulated", "real"),
    "harness/rocketmq": ("administration", "observers", "assembly"),
    "harness/environments/real": ("ssh", "external"),
    "harness/cli": (
        "admin",
        "conform",
        "history",
        "export",
        "this_machine",
        "report",
        "check",
        "analyze",
        "hunt",
        "proxy",
        "table",
        "explain",
        "shrink",
        "bugs",
        "serve",
        "farm",
    ),
    "harness/cli/admin": ("commands",),
    "harness/conformance": ("contract", "data", "clients", "cases", "sites", "outputs"),
    "harness/conformance/cases": ("durability", "client", "limits"),
    "checkers/model": ("building",),
    "checkers/formats": ("columnar", "chunks", "jepsen"),
}


def room_of(name: str, folder: str) -> str | None:
    """The room that a dotted name lies in: "" for the root of the folder, None for what lies outside of it."""
    prefix = "staticfire." + folder.replace("/", ".") + "."
    if not name.startswith(prefix):
        return None
    head = name.removeprefix(prefix).partition(".")[0]
    return head if (ROOT / folder / head).is_dir() else ""


def wrong_imports(folder: str, path: Path, names: Iterable[str]) -> list[str]:
    """Of the names that a module imports, those that lie in a room above its own."""
    order = ("", *ROOMS[folder])
    parts = path.relative_to(ROOT / folder).parts
    if parts in (("__init__.py",), ("__main__.py",)):
        return []  # the face of the folder, which its rooms do not import
    own = order.index(parts[0] if len(parts) > 1 else "")
    rooms = {name: room_of(name, folder) for name in names}
    return sorted(
        f"{path.relative_to(ROOT)} imports {name}"
        for name, room in rooms.items()
        if room is not None and order.index(room) > own
    )


def folders_below(top: str) -> list[str]:
    return sorted({path.parent.relative_to(ROOT).as_posix() for path in modules(top)})


@pytest.mark.parametrize("folder", ROOMS)
def test_rooms_import_only_rooms_before_them(folder: str) -> None:
    wrong = [
        line
        for path in modules(folder)
        for line in wrong_imports(folder, path, facts_of(path).imports)
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", ROOMS)
def test_every_folder_is_a_room(folder: str) -> None:
    inside = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
    assert inside == set(ROOMS[folder])


@pytest.mark.parametrize("top", [folder for folder in ROOMS if "/" not in folder])
def test_no_folder_is_a_long_list(top: str) -> None:
    sizes = {
        folder: len([path for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"])
        for folder in folders_below(top)
    }
    assert {folder: size for folder, size in sizes.items() if size > MODULES_MAX} == {}


@pytest.mark.parametrize("top", [folder for folder in ROOMS if "/" not in folder])
def test_folders_with_rooms_are_in_the_table(top: str) -> None:
    with_rooms = [folder for folder in folders_below(top) if list((ROOT / folder).glob("*/*.py"))]
    assert [folder for folder in with_rooms if folder not in ROOMS] == []


def test_an_import_from_a_later_room_is_named() -> None:
    path = ROOT / "checkers/model/columns.py"
    names = ["staticfire.checkers.engine.kernel", "staticfire.checkers.model.history", "numpy"]
    assert wrong_imports("checkers", path, names) == [
        "checkers/model/columns.py imports staticfire.checkers.engine.kernel"
    ]
