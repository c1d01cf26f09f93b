"""Our own cluster as processes: what each node is started with on a real place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import harness
import system_under_test
from harness.campaign import Campaign
from harness.clients.configuration import Configuration, configuration_of
from harness.environments.environment import ADMIN, PROBE
from harness.environments.place import Order, Place
from harness.targets.own_cluster import OwnCluster, Reach, directly
from system_under_test import config as node_config
from system_under_test import java_properties, option_values


def code_folders() -> tuple[str, ...]:
    """The folders from which this process has imported the system and the harness: a planted copy comes first."""
    packages = (system_under_test, harness)
    return tuple(dict.fromkeys(str(Path(package.__path__[0]).parent) for package in packages))


# -P: what lies in the current folder must not come before a planted copy.
PYTHON_OPTIONS = ("-P", "-m")


class OwnProcesses:
    """Implements `harness.targets.target.Target`.

    `python` and `code` are the interpreter on the machines and the folders there that hold our packages.
    """

    def __init__(
        self,
        campaign: Campaign,
        places: Mapping[str, Place],
        *,
        python: str,
        code: Sequence[str],
        reach: Reach = directly,
    ) -> None:
        self._cluster = OwnCluster(
            campaign,
            {name: place.address for name, place in places.items()},
            {name: f"{place.folder}/store" for name, place in places.items()},
            reach,
        )
        self._campaign = campaign
        self._places = places
        self._python = python
        self._variables = {
            "PYTHONPATH": ":".join(code),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def server_address(self, node: str) -> str:
        return self._cluster.server_address(node)

    def store_folder(self, node: str) -> str:
        return self._cluster.store_folder(node)

    def server_order(self, node: str, name_servers: Sequence[str]) -> Order:
        cluster = self._cluster
        if node in cluster.shape.name_servers:
            role = "name-server"
            config: Any = cluster.name_server_config(node)
            known = node_config.NAME_SERVER_PROPERTIES
        else:
            role = "broker"
            config = cluster.broker_config(cluster.shape.broker(node), name_servers)
            known = node_config.BROKER_PROPERTIES
        path = f"{self._places[node].folder}/{role}.properties"
        return Order(
            argv=(self._python, *PYTHON_OPTIONS, "system_under_test", role, "-c", path),
            files={path: _properties(config, known).encode()},
            variables=self._variables,
        )

    def client_order(self, node: str, name_servers: Sequence[str]) -> tuple[Order, Configuration]:
        if node == ADMIN:
            role = "admin"
            first_line: Configuration = {"node": node}
        elif node in self._cluster.shape.consumers:
            role = "consumer"
            first_line = configuration_of(
                self._cluster.consumer_config(node, name_servers), node=node
            )
        else:
            role = "producer"
            producer = self._cluster.producer_config(node, name_servers)
            first_line = configuration_of(producer, topic=self._campaign.topic, node=node)
        module = "harness.clients"
        if self._campaign.client == "cpp" and node not in (ADMIN, PROBE):
            module = "harness.clients.cpp_client"
            first_line["log_folder"] = f"{self._places[node].folder}/librocketmq"
        argv = (self._python, *PYTHON_OPTIONS, module, role)
        return Order(argv=argv, variables=self._variables), first_line


def _properties(config: Any, known: Mapping[str, node_config.Property]) -> str:
    """The `.properties` file of a node: what differs from the defaults."""
    defaults = {field.name: field.default for field in fields(config)}
    values = {}
    for name, wanted in known.items():
        value = getattr(config, wanted.field)
        if value != defaults[wanted.field]:
            values[name] = option_values.format_value(wanted.parse, value)
    return java_properties.format_properties(values)
