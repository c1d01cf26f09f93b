"""`staticfire doctor`: fault by fault and environment by environment, for people and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.abilities.survey import Capability
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import ENVIRONMENTS
from staticfire.harness.cli.this_machine import doctor
from tests.harness.cli.conftest import Staticfire

WITHOUT_ROOT = (Capability(name="root", reason="needs root"), Capability(name="processes"))


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STATICFIRE_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def survey_says(monkeypatch: pytest.MonkeyPatch, *capabilities: Capability) -> None:
    async def survey(machine: LinuxMachine, folder: str) -> list[Capability]:
        return list(capabilities)

    monkeypatch.setattr(doctor, "survey", survey)


def test_a_table_and_the_reasons(staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch) -> None:
    netem = Capability(name="netem", reason="there is no command tc", package="iproute2")
    survey_says(monkeypatch, *WITHOUT_ROOT, netem)
    said = staticfire("doctor")
    assert said.status == 0
    assert said.out.split("\n")[0].split() == ["fault", *ENVIRONMENTS]
    for fault in FAULTS:
        assert re.search(rf"^{fault} +yes +(yes|no) +no", said.out, re.MULTILINE), fault
    assert "\nnamespaces: every fault: root: needs root\n" in said.out
    assert "netem           no: there is no command tc; apt install iproute2" in said.out


def test_json(staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch) -> None:
    survey_says(monkeypatch, *WITHOUT_ROOT)
    found = json.loads(staticfire("doctor", "--json").out)
    assert found["capabilities"][0] == {
        "name": "root",
        "available": False,
        "reason": "needs root",
        "package": "",
    }
    assert list(found["environments"]) == list(ENVIRONMENTS)
    assert found["environments"]["simulation"]["available"] == list(FAULTS)
    assert found["environments"]["namespaces"]["missing"]["kill"] == "root: needs root"


def test_a_survey_that_cannot_clean_up(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def survey(machine: LinuxMachine, folder: str) -> list[Capability]:
        raise FaultError("the loop device is busy")

    monkeypatch.setattr(doctor, "survey", survey)
    said = staticfire("doctor")
    assert said.status == 255
    assert "the survey of this machine failed: the loop device is busy" in said.err


@pytest.mark.slow
@pytest.mark.real
def test_on_this_machine(staticfire: Staticfire, own_state: Path) -> None:
    said = staticfire("doctor", "--json")
    assert said.status == 0
    assert "kill" in json.loads(said.out)["environments"]["processes"]["available"]
    assert list(own_state.iterdir()) == []
