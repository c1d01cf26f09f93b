"""Finds a system by name: built in, by entry point, or as `module:attribute`.

A module is imported only if the user, or the program that runs a campaign, has named it (`name_module`). Files of a run
or a campaign may come from other people, so modules that they name are not imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import ENVIRONMENTS, Campaign
from staticfire.harness.systems.errors import SystemRefused
from staticfire.harness.systems.system import NEEDED_OPTIONS, System
from staticfire.harness.truncated_repr import printable, truncated_repr
from staticfire.harness.workloads.workload import Workload

BUILT_IN: Mapping[str, str] = {"rocketmq": "staticfire.harness.rocketmq.assembly.system:ROCKETMQ"}
ENTRY_POINTS = "staticfire.systems"
_named_modules: dict[str, None] = {}
ATTRIBUTES = (
    "name",
    "workloads",
    "faults",
    "targets",
    "options",
    "draws",
    "stored_logs",
    "memory",
)
METHODS = tuple(name for name, value in vars(System).items() if callable(value) and name[0] != "_")


def name_module(reference: str) -> None:
    """Allow the import of a `module:attribute`. Other names need no permission."""
    _named_modules[reference] = None


def system_of(campaign: Campaign) -> System:
    """Return the system that the campaign tests. Raises SystemRefused."""
    return system_named(campaign.system)


@cache
def system_named(name: str) -> System:
    """Return the system. Raises SystemRefused if it does not exist or its declaration is wrong."""
    if ":" in name and name not in _named_modules:
        raise SystemRefused(
            f"system is {truncated_repr(name)} in a file, which imports no module by itself; "
            f"allowed: the same with --system {printable(name)}, or an installed system"
        )
    given = BUILT_IN.get(name) or (name if ":" in name else _entry_point(name))
    module, _, attribute = given.partition(":")
    if name in _named_modules and os.curdir not in sys.path:
        sys.path.append(os.curdir)  # finds a system in the folder of the user's campaigns
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # the user's module may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise SystemRefused(f"system is {truncated_repr(name)}: {printable(reason)}") from error
    check_declaration(found, name)
    return cast(System, found)


def known_systems() -> list[str]:
    """Return the names of systems that are built in or installed."""
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINTS))})


def _entry_point(name: str) -> str:
    """Return the `module:attribute` of an installed system."""
    installed = entry_points(group=ENTRY_POINTS)
    values = sorted({point.value for point in installed if point.name == name})
    if len(values) > 1:
        raise SystemRefused(
            f"system is {truncated_repr(name)}, which {len(values)} packages install: "
            f"{', '.join(values)}; allowed: one of a name"
        )
    if not values:
        raise SystemRefused(
            f"system is {truncated_repr(name)}; allowed: {', '.join(known_systems())}, or module:attribute"
        )
    return values[0]


def check_declaration(system: Any, name: str) -> None:
    """Raise SystemRefused for the first error in a system's declaration."""

    def require(condition: bool, what: str) -> None:
        if not condition:
            raise SystemRefused(f"system {truncated_repr(name)} {what}")

    for attribute in ATTRIBUTES:
        require(hasattr(system, attribute), f"has no {attribute}")
    for method in METHODS:
        require(callable(getattr(system, method, None)), f"has no method {method}")
    require(":" in name or system.name == name, f"calls itself {truncated_repr(system.name)}")
    for attribute, kind, words in (
        ("workloads", Mapping, "a mapping"),
        ("faults", Sequence, "a sequence"),
        ("targets", Mapping, "a mapping"),
        ("options", Mapping, "a mapping"),
        ("draws", Mapping, "a mapping"),
    ):
        value = getattr(system, attribute)
        is_right = isinstance(value, kind) and not isinstance(value, str)
        require(is_right, f"has {attribute} {truncated_repr(value)}; allowed: {words}")
    known = {field.name for field in fields(Campaign)}
    for verb, found in (("fixes", system.options), ("draws", system.draws)):
        unknown = sorted(set(found) - known)
        require(not unknown, f"{verb} {unknown}, which are no options of a campaign")
    open_ones = [name for name in NEEDED_OPTIONS if name not in {*system.options, *system.draws}]
    require(not open_ones, f"neither fixes nor draws {', '.join(open_ones)}")
    require(bool(system.workloads), "has no workload; allowed: one or more")
    for key, workload in system.workloads.items():
        require(
            isinstance(workload, Workload) and workload.name == key,
            f"has under {truncated_repr(key)} no workload of that name",
        )
    for kind in system.faults:
        require(
            kind in FAULTS,
            f"names the fault {truncated_repr(kind)}; allowed: {', '.join(FAULTS)}",
        )
    require(bool(system.targets), "has no target; allowed: one or more")
    for target, environments in system.targets.items():
        unknown = [environment for environment in environments if environment not in ENVIRONMENTS]
        require(
            bool(environments) and not unknown,
            f"runs its target {truncated_repr(target)} in {truncated_repr(list(environments))}; "
            f"allowed: {', '.join(ENVIRONMENTS)}",
        )
