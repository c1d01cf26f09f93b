"""The environments of real machines by name, and which faults each can carry out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from faults.catalogue import FAULTS
from faults.fault import Fault
from harness.environments.fleet import Fleet
from harness.environments.namespaces import NamespaceFleet
from harness.environments.processes import ProcessFleet

FLEETS: dict[str, Callable[[], Fleet]] = {
    "processes": ProcessFleet,
    "namespaces": NamespaceFleet,
}


def make_fleet(environment: str) -> Fleet:
    """The machines of an environment, not yet made."""
    return FLEETS[environment]()


def why_missing(fault: Fault, lacks: Mapping[str, str]) -> str | None:
    """Why an environment that lacks this cannot carry out the fault; None if it can."""
    for need in fault.needs:
        for name in (need.partition(".")[0], need):
            if name in lacks:
                return lacks[name]
    return None


def missing_faults(lacks: Mapping[str, str]) -> dict[str, str]:
    """The kinds that cannot be carried out, each with the reason."""
    reasons = {name: why_missing(fault, lacks) for name, fault in FAULTS.items()}
    return {name: reason for name, reason in reasons.items() if reason is not None}
