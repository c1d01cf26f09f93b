"""Needs of environments and faults on this machine, for `doctor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from staticfire.faults.linux.abilities.survey import Capability
from staticfire.faults.model.fault import Fault
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.environments.real.catalogue import PROVIDERS, make_provider, why_missing
from staticfire.harness.machines.errors import EnvironmentFailed

# Capabilities of `staticfire.faults.linux.abilities.survey` without which an environment cannot be used at all.
ENVIRONMENT_NEEDS: Mapping[str, tuple[str, ...]] = {
    "processes": ("processes",),
    "namespaces": ("root", "processes", "namespaces", "nftables", "loop ext4"),
    "docker": ("root", "docker", "nftables", "loop ext4"),
    "address": ("processes",),
    "ssh": ("root", "namespaces", "nftables", "loop ext4", "sshd"),
}

# Need of a fault (`Fault.needs`) -> abilities of the machine, in environments that can meet the need.
CAPABILITY_OF: Mapping[str, str] = {
    "network": "nftables",
    "network.delay": "netem",
    "network.lose": "netem",
    "network.limit": "tbf",
    "disk.power_cut": "shutdown ext4",
    "disk.destroy": "shutdown ext4",
    "disk.fill": "loop ext4",
    "disk.wipe": "loop ext4",
    "disk.fail": "failing fsync",
    "disk.slow": "blkio throttle",
    "clock": "libfaketime",
}
# Needs that an environment meets on any machine, since its proxy cuts and delays links between nodes.
UNAIDED: Mapping[str, tuple[str, ...]] = {
    "processes": ("network", "network.delay", "network.limit"),
    "namespaces": ("network.delay",),
    "docker": ("network.delay",),
    "ssh": ("network.delay",),
    "address": ("network", "network.delay", "network.limit"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The faults that one environment cannot carry out on this machine, each with the reason."""

    missing: dict[str, str]

    def to_json(self) -> dict[str, object]:
        return {
            "available": [fault for fault in FAULTS if fault not in self.missing],
            "missing": self.missing,
        }


def diagnose(environment: str, capabilities: Sequence[Capability]) -> Diagnosis:
    """Return what this machine lacks for an environment. The simulation lacks nothing."""
    if environment not in PROVIDERS:
        return Diagnosis(missing={})
    found = {capability.name: capability for capability in capabilities}
    try:
        lacks = make_provider(environment).lacks
    except EnvironmentFailed as error:
        return Diagnosis(missing=dict.fromkeys(FAULTS, str(error)))
    if reason := _lacking(found, ENVIRONMENT_NEEDS.get(environment, ())):
        return Diagnosis(missing=dict.fromkeys(FAULTS, reason))
    unaided = UNAIDED.get(environment, ())
    reasons = {name: _why_not(fault, lacks, unaided, found) for name, fault in FAULTS.items()}
    return Diagnosis(missing={name: reason for name, reason in reasons.items() if reason})


def _why_not(
    fault: Fault,
    lacks: Mapping[str, str],
    unaided: Sequence[str],
    found: Mapping[str, Capability],
) -> str:
    """Return why a fault cannot be carried out: a limit of the environment first, then one of this machine."""
    if reason := why_missing(fault, lacks):
        return reason
    wanted = (
        CAPABILITY_OF[name]
        for need in fault.needs
        for name in (need, need.partition(".")[0])
        if name in CAPABILITY_OF and name not in unaided
    )
    return _lacking(found, tuple(wanted))


def _lacking(found: Mapping[str, Capability], names: Sequence[str]) -> str:
    """Return why the first missing ability is not available; empty if none is missing."""
    for name in names:
        capability = found.get(name)
        if capability is None:
            return f"{name} was not tried on this machine"
        if not capability.available:
            return f"{name}: {capability.advice}"
    return ""
