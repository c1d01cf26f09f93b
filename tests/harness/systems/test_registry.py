"""Systems by name: built in, `module:attribute`, and declarations that are wrong."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from staticfire.harness.campaign.campaign import CampaignError
from staticfire.harness.campaign.file import read_options
from staticfire.harness.cli.options import choose_faults
from staticfire.harness.cli.status import BadInput
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.real.catalogue import DEFAULTS
from staticfire.harness.systems import registry
from staticfire.harness.systems.errors import SystemRefused
from staticfire.harness.systems.registry import METHODS, check_declaration, system_named
from staticfire.harness.workloads.queue import QUEUE
from tests.support.toylog.system import TOYLOG

TOY = "tests.support.toylog.system:TOYLOG"
BROKEN = ["no_such_module:X", "json:X", ".relative:X", ":X", "tests.support.broken_module:X"]


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_named_modules", dict.fromkeys([TOY, *BROKEN]))


def test_a_module_that_only_a_file_names_is_not_imported(tmp_path: Path) -> None:
    name = "tests.support.imported_by_a_file:X"
    with pytest.raises(SystemRefused, match="in a file, which imports no module by itself"):
        system_named(name)
    with pytest.raises(CampaignError, match="in a file"):
        draw_campaign(1, {"system": name})


def test_a_system_is_no_choice_of_the_seed() -> None:
    text = '[campaign.choices]\nsystem = ["rocketmq", "other"]\n'
    with pytest.raises(CampaignError, match="choices hold system; allowed: one system for all"):
        read_options(text, "the test")


def declaration(**changes: Any) -> Any:
    """A system that is declared well, but for these attributes."""
    methods: dict[str, Any] = dict.fromkeys(METHODS, lambda: None)
    fields = {
        "name": "mine",
        "workloads": {"queue": QUEUE},
        "faults": ("kill",),
        "targets": {"own": ("simulation",)},
        "options": {"coordinators": 0, "followers": (0,), "flush": "sync", "replication": "none"},
        "draws": {"log_file_bytes": lambda random, drawn: 65536},
        "stored_logs": None,
        "memory": None,
    }
    return SimpleNamespace(**{**methods, **fields, **changes})


def test_rocketmq_is_built_in() -> None:
    assert system_named("rocketmq").name == "rocketmq"


def test_a_system_of_a_module() -> None:
    assert system_named(TOY) is TOYLOG


def test_a_good_declaration_is_taken() -> None:
    check_declaration(declaration(), "mine")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "yours"}, "system 'mine' calls itself 'yours'"),
        ({"workloads": {}}, "system 'mine' has no workload; allowed: one or more"),
        ({"workloads": {"x": QUEUE}}, "system 'mine' has under 'x' no workload of that name"),
        ({"faults": ("krill",)}, "system 'mine' names the fault 'krill'; allowed: kill, "),
        ({"targets": {}}, "system 'mine' has no target; allowed: one or more"),
        (
            {"targets": {"own": ("mars",)}},
            "system 'mine' runs its target 'own' in ['mars']; allowed: simulation, ",
        ),
        ({"workloads": ("queue",)}, "system 'mine' has workloads ('queue',); allowed: a mapping"),
        ({"faults": "kill"}, "system 'mine' has faults 'kill'; allowed: a sequence"),
        ({"options": {"acks": 1}}, "system 'mine' fixes ['acks'], which are no options of"),
        ({"draws": {"acks": None}}, "system 'mine' draws ['acks'], which are no options of"),
        ({"draws": ()}, "system 'mine' has draws (); allowed: a mapping"),
        (
            {"options": {"followers": (0,)}},
            "system 'mine' neither fixes nor draws coordinators, flush",
        ),
        ({"operations": None}, "system 'mine' has no method operations"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SystemRefused) as caught:
        check_declaration(declaration(**changes), "mine")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("kafka", "system is 'kafka'; allowed: rocketmq, or module:attribute"),
        (
            "no_such_module:X",
            "system is 'no_such_module:X': ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("json:X", "system is 'json:X': AttributeError: module 'json' has no attribute 'X'"),
        (
            "tests.support.broken_module:X",
            "system is 'tests.support.broken_module:X': RuntimeError: it cannot be imported",
        ),
    ],
)
def test_a_system_that_there_is_not(name: str, sentence: str) -> None:
    with pytest.raises(SystemRefused) as caught:
        system_named(name)
    assert str(caught.value) == sentence
    with pytest.raises(CampaignError):
        draw_campaign(1, {"system": name})


@pytest.mark.parametrize("name", [".relative:X", ":X"])
def test_a_module_without_a_name_is_one_sentence(name: str) -> None:
    with pytest.raises(SystemRefused, match=f"system is {name!r}: "):
        system_named(name)


def test_two_packages_install_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [SimpleNamespace(name="twice", value=value) for value in ("a:X", "b:X")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    with pytest.raises(SystemRefused, match="'twice', which 2 packages install: a:X, b:X"):
        system_named("twice")


def test_an_installed_system_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    point = SimpleNamespace(name="toylog", value=TOY)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    assert system_named("toylog") is TOYLOG


def test_its_options_are_fixed_and_its_faults_are_drawn() -> None:
    campaign = draw_campaign(3, {"system": TOY})
    assert (campaign.coordinators, campaign.followers, campaign.consumers) == (0, (0,), 1)
    assert {planned.kind for planned in campaign.plan} <= set(TOYLOG.faults)
    assert campaign.plan


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"workload": "retry"}, "workload is 'retry'; allowed: queue"),
        ({"environment": "docker"}, "environment is 'docker'; allowed: simulation, processes"),
        ({"target": "apache"}, "target is 'apache'; allowed: own"),
        ({"queues": 4}, "queues is 4; allowed: 1 with the system toylog"),
        ({"faults": ("disk-full",)}, "faults is 'disk-full'; allowed: kill, "),
    ],
)
def test_what_it_does_not_allow_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CampaignError) as caught:
        draw_campaign(1, {"system": TOY, **given})
    assert str(caught.value).startswith(sentence)


def test_a_fault_that_cannot_strike_it_is_refused_by_name() -> None:
    given = {"system": TOY, "faults": ("disk-full",)}
    with pytest.raises(BadInput, match=f"the system {TOY} does not declare it"):
        choose_faults(1, given, DEFAULTS)


def test_all_faults_are_those_that_can_strike_it() -> None:
    given: dict[str, Any] = {"system": TOY, "faults": ("all",)}
    assert choose_faults(1, given, DEFAULTS) == {}
    assert set(given["faults"]) == set(TOYLOG.faults)
