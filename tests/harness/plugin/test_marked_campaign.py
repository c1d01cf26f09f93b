"""The options of the marker `campaign`: those of `staticfire run`, and of campaign files."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click
import pytest

from staticfire.harness.campaign.campaign import Campaign, CampaignError
from staticfire.harness.cli.run import run
from staticfire.harness.cli.status import BadInput
from staticfire.harness.plugin.marked_campaign import OPTIONS, read_marker


def campaign(**options: Any) -> Campaign:
    return read_marker(options).campaign


def test_the_marker_has_every_option_of_the_command() -> None:
    of_the_output = {"runs", "is_dry_run", "is_verbose", "junit", "is_markdown", "is_json"}
    parameters = {str(option.name) for option in run.params if isinstance(option, click.Option)}
    assert parameters - of_the_output <= set(OPTIONS)
    assert {field.name for field in fields(Campaign)} <= set(OPTIONS)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"seed": 0, "time_s": 20.0, "workload": "queue"}),
        ({"seed": 7, "time": 5}, {"seed": 7, "time_s": 5}),
        ({"faults": "kill,pause"}, {"faults": ("kill", "pause")}),
        ({"faults": ["kill"]}, {"faults": ("kill",)}),
        ({"faults": "none"}, {"faults": ()}),
        ({"masters": 2, "slaves": "2,1"}, {"followers": (2, 1)}),
        ({"masters": 2, "slaves": 1}, {"followers": (1, 1)}),
        ({"slaves": (1, 0), "replication": "async"}, {"followers": (1, 0), "replication": "async"}),
        ({"batch_messages": "2,9"}, {"batch_messages": (2, 9)}),
        ({"batch_messages": (3, 4)}, {"batch_messages": (3, 4)}),
        ({"payload_bytes": (100, 200)}, {"payload_bytes": (100, 200)}),
        ({"mode": "faithful", "policies": "store.cut_log"}, {"policies": ("store.cut_log",)}),
        ({"mode": "faithful", "policies": ["store.cut_log"]}, {"policies": ("store.cut_log",)}),
        ({"campaign": "power-loss-on-slow-disk"}, {"replication": "none"}),
        ({"campaign": "default", "time_s": 9.0}, {"time_s": 9.0}),
        ({"defect": "ack-before-fsync"}, {"defect": "ack-before-fsync"}),
    ],
)
def test_options_are_taken_over(options: dict[str, Any], expected: dict[str, Any]) -> None:
    found = campaign(**options)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    "properties",
    [
        {"fileReservedTime": 48},
        (("fileReservedTime", 48),),
        ("fileReservedTime=48",),
        "fileReservedTime=48",
    ],
)
def test_properties_may_be_written_in_several_ways(properties: Any) -> None:
    for name in ("broker_properties", "broker_property"):
        assert dict(campaign(**{name: properties}).broker_properties)["fileReservedTime"] == "48"


def test_the_plan_of_a_named_campaign_gives_way_to_other_faults() -> None:
    kinds = {planned.kind for planned in campaign(campaign="backlog", faults="kill").plan}
    assert kinds == {"kill"}


def test_a_defect_brings_its_recipe() -> None:
    assert campaign(defect="ack-before-fsync").time_s != 20.0


def test_machines_are_taken_over() -> None:
    options = {"environment": "docker", "image": "python:3.12", "faults": "kill"}
    assert read_marker(options).provider.image == "python:3.12"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"minimum": 5},
            "the marker campaign has an unknown option 'minimum'; there are: campaign",
        ),
        ({"campaign": "none-such"}, "campaign 'none-such' cannot be read"),
        ({"campaign": 5}, "the marker campaign: campaign is 5; allowed: text"),
        ({"masters": "2"}, "the marker campaign: leaders is '2'; allowed: a whole number"),
        ({"masters": 2, "slaves": (1,) * 3}, "--slaves names 3 masters, --masters says 2"),
        ({"slaves": "one"}, "--slaves is 'one'; allowed: whole numbers"),
        ({"seed": "7"}, "the marker campaign: seed is or holds '7'; allowed: a whole number"),
        ({"time_s": "long"}, "time_s is or holds 'long'; allowed: a number"),
        ({"time_s": 0}, "time is 0; allowed: 1 to"),
        ({"environment": "moon"}, "environment is 'moon'; allowed: simulation"),
        ({"target": "apache"}, "environment is 'simulation'; allowed: processes"),
        ({"target": "address"}, "needs --name-server"),
        ({"name_server": "h:1"}, "--name-server is only for --environment address"),
        ({"client": "cpp"}, "for C"),
        (
            {"defect": "none-such"},
            "unknown defect 'none-such', and not a .diff file; there are: ack-before-fsync",
        ),
        ({"faults": ("none",)}, "faults"),
        ({"mode": "strict"}, "mode is 'strict'; allowed: hardened, faithful"),
        ({"broker_properties": {"noSuchProperty": 1}}, "noSuchProperty"),
        ({"ssh_key": "/no/such/file"}, "--ssh-key is '/no/such/file', which cannot be read"),
    ],
)
def test_what_is_not_allowed_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((BadInput, CampaignError, ValueError)) as caught:
        read_marker(options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
