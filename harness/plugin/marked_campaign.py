"""Runs the campaign of a test with the marker `campaign`.

The marker takes the options of `staticfire run` (`campaign="default"`, `faults="kill"`, `masters=2`), every option of a
campaign file as a Python value (`payload_bytes=(100, 200)`), and the options about machines.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from staticfire.faults.defects import defect_named
from staticfire.harness.campaign.campaign import FORMER_NAMES, Campaign
from staticfire.harness.campaign.file import typed_options
from staticfire.harness.cli.external_cluster import take_cluster
from staticfire.harness.cli.machine_options import MACHINE_DEFAULTS, read_machines
from staticfire.harness.cli.options import check_nodes, choose_faults, given_options
from staticfire.harness.cli.status import BadInput
from staticfire.harness.defect_loader import planted
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.runs.any_runner import runner_of
from staticfire.harness.systems.registry import name_module
from staticfire.harness.truncated_repr import truncated_repr

SOURCE = "the marker campaign"
TIME_S = 20.0  # length of the load, unless the marker, a named campaign or the recipe sets it
RENAMED = {
    "time": "time_s",
    "broker_property": "broker_properties",
    "masters": "leaders",
    **FORMER_NAMES,
}
SPELLED = ("faults", "policies", "batch_messages")  # may be written as on the command line
T = TypeVar("T")
OPTIONS = (
    "campaign",
    "leaders",
    *(field.name for field in fields(Campaign)),
    *RENAMED,
    *MACHINE_DEFAULTS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedCampaign:
    """The campaign of a marker, and its machines."""

    campaign: Campaign
    provider: MachineOptions


def check_names(options: Mapping[str, object]) -> None:
    """Raises BadInput for an option that the marker does not have."""
    for name in options:
        if name not in OPTIONS:
            raise BadInput(
                f"{SOURCE} has an unknown option {name!r}; there are: {', '.join(OPTIONS)}"
            )


def read_marker(options: Mapping[str, Any]) -> MarkedCampaign:
    """Return the campaign of these options; the seed, 0 by default, draws the others.

    Raises BadInput, CampaignError, FaultError, DefectError, or HarnessError for missing machines.
    """
    check_names(options)
    plain = {RENAMED.get(name, name): value for name, value in options.items()}
    provider = read_machines(
        **{name: plain.pop(name, default) for name, default in MACHINE_DEFAULTS.items()}
    )
    said = set(plain)
    if system := plain.get("system"):
        name_module(str(system))
    if defect := plain.get("defect"):
        defect_named(str(defect))
    given = _given(plain)
    seed = given.pop("seed", 0)
    given.setdefault("time_s", TIME_S)
    take_cluster(given, provider, said)
    choose_faults(seed, given, provider)
    campaign = draw_campaign(seed, given)
    check_nodes(campaign, provider)
    return MarkedCampaign(campaign=campaign, provider=provider)


def _given(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the options, including a named campaign's, with the types of Campaign."""
    texts = {name: plain.pop(name) for name in SPELLED if isinstance(plain.get(name), str)}
    name, leaders = _of_type(plain, "campaign", str), _of_type(plain, "leaders", int)
    followers = plain.pop("followers", None)
    properties = plain.pop("broker_properties", {})
    typed = typed_options({name: _plain(value) for name, value in plain.items()}, SOURCE)
    named = {name: typed.pop(name) for name in ("defect", "replication") if name in typed}
    if "faults" in typed:
        texts["faults"] = "none"  # drop the plan of the named campaign
    given = given_options(
        campaign=name,
        leaders=leaders,
        followers=None if followers is None else _joined(followers),
        faults=texts.get("faults"),
        policies=texts.get("policies"),
        batch_messages=texts.get("batch_messages"),
        broker_properties=_pairs(properties),
        **named,
    )
    return {**given, **typed}


def _of_type(plain: dict[str, object], name: str, wanted: type[T]) -> T | None:
    value = plain.pop(name, None)
    if value is not None and type(value) is not wanted:
        words = "text" if wanted is str else "a whole number"
        raise BadInput(f"{SOURCE}: {name} is {truncated_repr(value)}; allowed: {words}")
    return value


def _plain(value: object) -> object:
    """Convert a value to the form of a TOML file."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _joined(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _pairs(properties: Any) -> tuple[str, ...]:
    """Return `NAME=VALUE` texts from a mapping, from pairs, or from such texts."""
    if isinstance(properties, str):
        return (properties,)
    rows = properties.items() if isinstance(properties, Mapping) else properties
    return tuple(row if isinstance(row, str) else f"{row[0]}={_text(row[1])}" for row in rows)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def run_marked(marked: MarkedCampaign) -> RunResult:
    """Run the campaign and judge it; with a planted defect, in a process of its own that imports the defective system.

    Raises RunError, EnvironmentFailed, CapabilityMissing, DefectError.
    """
    if not marked.campaign.defect:
        return runner_of(marked.campaign, marked.provider)(marked.campaign)
    with planted(marked.campaign.defect) as folders:
        sys.path[:0] = folders  # the spawned process inherits it
        try:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                return process.submit(_run_defective, marked).result()
        finally:
            del sys.path[: len(folders)]


def _run_defective(marked: MarkedCampaign) -> RunResult:
    return runner_of(marked.campaign, marked.provider)(marked.campaign)
