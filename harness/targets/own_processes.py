"""Our own cluster as processes: how each node is started on its machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.machines.machine import LaunchSpec, Machine
from staticfire.harness.targets.client_processes import ClientProcesses
from staticfire.harness.targets.interpreter import Interpreter
from staticfire.harness.targets.own_cluster import OwnCluster, Reach, directly
from staticfire.system_under_test.configuration import config as node_config
from staticfire.system_under_test.configuration import java_properties, option_values


class OwnProcesses(ClientProcesses):
    """Implements `staticfire.harness.targets.target.Target`.

    `python` and `code` are the interpreter on the machines and the folders there that hold our packages.
    """

    def __init__(
        self,
        campaign: Campaign,
        machines: Mapping[str, Machine],
        *,
        python: str,
        code: Sequence[str],
        reach: Reach = directly,
    ) -> None:
        cluster = OwnCluster(
            campaign,
            {name: machine.address for name, machine in machines.items()},
            {name: f"{machine.folder}/store" for name, machine in machines.items()},
            reach,
        )
        interpreter = Interpreter(python=python, code=tuple(code))
        super().__init__(campaign, machines, cluster, interpreter)

    def server_address(self, node: str) -> str:
        return self._cluster.server_address(node)

    def store_folder(self, node: str) -> str:
        return self._cluster.store_folder(node)

    def server_launch_spec(self, node: str, name_servers: Sequence[str]) -> LaunchSpec:
        cluster = self._cluster
        if node in cluster.topology.coordinators:
            role = "name-server"
            config: Any = cluster.name_server_config(node)
            known = node_config.NAME_SERVER_PROPERTIES
        else:
            role = "broker"
            config = cluster.broker_config(cluster.topology.replica(node), name_servers)
            known = node_config.BROKER_PROPERTIES
        path = f"{self._machines[node].folder}/{role}.properties"
        tls, tls_files = self._tls(node)
        launch_spec = self._interpreter.launch_spec(
            "staticfire.system_under_test",
            role,
            "-c",
            path,
            *tls,
            files={path: _properties(config, known).encode(), **tls_files},
        )
        kept = cluster.account_files(node) if role == "broker" else {}
        return replace(launch_spec, kept=kept, serving=cluster.serving(node))

    def _tls(self, node: str) -> tuple[tuple[str, ...], Mapping[str, bytes]]:
        """Return the TLS options and files of a server."""
        files = self.tls_files(node)
        if not files:
            return ("--tls", self._campaign.tls), {}
        use = ("--use-tls",) if self._cluster.speaks_tls(node) else ()
        path = self.tls_path(node)
        return ("--tls", self._campaign.tls, "--tls-config", path, *use), files


def _properties(config: Any, known: Mapping[str, node_config.Property]) -> str:
    """Return the `.properties` file of a node, with the values that differ from the defaults."""
    defaults = {field.name: field.default for field in fields(config)}
    values = {}
    for name, wanted in known.items():
        value = getattr(config, wanted.field)
        if value != defaults[wanted.field]:
            values[name] = option_values.format_value(wanted.parse, value)
    return java_properties.format_properties(values)
