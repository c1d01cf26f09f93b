"""Capabilities that a machine lacks for the faults of an environment."""

from __future__ import annotations

import pytest

from staticfire.faults.linux.abilities.survey import Capability
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.environments.real import machine_needs
from staticfire.harness.environments.real.catalogue import PROVIDERS
from staticfire.harness.environments.real.machine_needs import (
    CAPABILITY_OF,
    ENVIRONMENT_NEEDS,
    diagnose,
)
from staticfire.harness.machines.errors import EnvironmentFailed

NAMES = (
    *("root", "processes", "namespaces", "nftables", "blkio throttle", "tbf", "netem", "docker"),
    *("sshd", "java", "libfaketime", "loop ext4", "shutdown ext4", "failing fsync"),
)


def all_but(**missing: str) -> list[Capability]:
    """Capabilities of a machine; underscores stand for spaces."""
    reasons = {name.replace("_", " "): reason for name, reason in missing.items()}
    return [Capability(name=name, reason=reasons.get(name, "")) for name in NAMES]


def test_the_simulation_lacks_nothing() -> None:
    assert diagnose("simulation", []).missing == {}


def test_every_name_is_one_of_the_survey() -> None:
    wanted = {name for names in ENVIRONMENT_NEEDS.values() for name in names}
    assert wanted | set(CAPABILITY_OF.values()) <= set(NAMES)
    assert set(PROVIDERS) <= set(ENVIRONMENT_NEEDS)


def test_what_an_environment_cannot_work_without() -> None:
    missing = diagnose("namespaces", all_but(nftables="there is no command nft")).missing
    assert set(missing) == set(FAULTS)
    assert set(missing.values()) == {"nftables: there is no command nft"}


def test_what_only_some_faults_need() -> None:
    everything = diagnose("namespaces", all_but()).missing
    missing = diagnose("namespaces", all_but(shutdown_ext4="no ioctl")).missing
    assert set(missing) - set(everything) == {"power-cut", "cluster-power-cut", "disk-lost"}
    assert missing["power-cut"] == "shutdown ext4: no ioctl"
    assert "kill" not in missing


def test_what_an_environment_never_can_comes_first() -> None:
    missing = diagnose("processes", all_but(nftables="there is no command nft")).missing
    assert "--environment namespaces" in missing["power-cut"]
    assert "partition-one" not in missing  # through a proxy


@pytest.mark.parametrize("environment", ["namespaces", "docker", "ssh"])
def test_a_proxy_delays_what_the_kernel_cannot(environment: str) -> None:
    missing = diagnose(environment, all_but(netem="the kernel has no netem")).missing
    assert "netem" in missing["packet-loss"]
    assert "network-latency" not in missing


def test_an_environment_whose_library_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str) -> None:
        raise EnvironmentFailed("needs the Python package docker")

    monkeypatch.setattr(machine_needs, "make_provider", make)
    found = diagnose("docker", all_but())
    assert set(found.missing) == set(FAULTS)
    assert found.to_json()["available"] == []
