"""The environments of real machines by name, and which faults each can carry out."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from staticfire.faults.model.fault import Fault
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.environments.real.machine_provider import MachineProvider
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.options import MachineOptions

DEFAULTS = MachineOptions()
# The module of each provider, imported on first use, since some imports take half a second.
PROVIDERS = {
    "processes": "staticfire.harness.environments.real.processes:ProcessProvider",
    "namespaces": "staticfire.harness.environments.real.namespaces:NamespaceProvider",
    "docker": "staticfire.harness.environments.real.docker:DockerProvider",
    "ssh": "staticfire.harness.environments.real.ssh.provider:SshProvider",
    "address": "staticfire.harness.environments.real.external.address:AddressProvider",
}


NO_PROXY = "a proxy between nodes cannot read addresses that are encrypted"
DELAY_NEED, LOSS_NEED = "network.delay", "network.lose"


def make_provider(environment: str, options: MachineOptions = DEFAULTS) -> MachineProvider:
    """Return the provider of an environment's machines. Raises EnvironmentFailed if its library is not installed."""
    module, _, name = PROVIDERS[environment].partition(":")
    try:
        provider: MachineProvider = getattr(importlib.import_module(module), name)(options)
    except ModuleNotFoundError as error:
        raise EnvironmentFailed(
            f"--environment {environment} needs the Python package {error.name}; "
            f"pip install 'staticfire[{environment}]'"
        ) from error
    return provider


def why_missing(fault: Fault, lacks: Mapping[str, str]) -> str | None:
    """Return why an environment with these lacks cannot carry out the fault; None if it can."""
    for need in fault.needs:
        for name in (need.partition(".")[0], need):
            if name in lacks:
                return lacks[name]
    return None


def lacks_with_tls(environment: str, lacks: Mapping[str, str]) -> dict[str, str]:
    """Return the faults that an environment lacks with TLS: those that need a proxy between its nodes."""
    if environment == "processes":
        return {**lacks, "network": f"{NO_PROXY}; --environment namespaces parts nodes without one"}
    if LOSS_NEED in lacks:
        return {**lacks, DELAY_NEED: f"{NO_PROXY}, and the kernel has no netem"}
    return dict(lacks)


def missing_faults(lacks: Mapping[str, str]) -> dict[str, str]:
    """Return the kinds that cannot be carried out, each with the reason."""
    reasons = {name: why_missing(fault, lacks) for name, fault in FAULTS.items()}
    return {name: reason for name, reason in reasons.items() if reason is not None}
