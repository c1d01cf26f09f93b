"""The clients of a run as processes: the same for every target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticfire.harness.accounts import ACCOUNTS, OPERATOR
from staticfire.harness.campaign.campaign import TLS_MODES, Campaign
from staticfire.harness.clients.client_command import is_command, split_command
from staticfire.harness.clients.configuration import Configuration, configuration_of
from staticfire.harness.clients.consumer_kinds import PUSH
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.machines.machine import LaunchSpec, Machine
from staticfire.harness.targets.interpreter import Interpreter
from staticfire.harness.targets.own_cluster import OwnCluster
from staticfire.system_under_test.configuration import java_properties
from staticfire.system_under_test.configuration.real_tls import make_test_certificate


class ClientProcesses:
    """The part of a target that starts producers, consumers and the administrator.

    `cluster` has the options of their connections. Raises TlsError if no certificate can be made for TLS.
    """

    def __init__(
        self,
        campaign: Campaign,
        machines: Mapping[str, Machine],
        cluster: OwnCluster,
        interpreter: Interpreter,
    ) -> None:
        self._campaign = campaign
        self._machines = machines
        self._cluster = cluster
        self._interpreter = interpreter
        is_plain = campaign.tls == TLS_MODES[0] and not campaign.replica_tls
        self._certificate = None if is_plain else make_test_certificate()

    def change_specification(self, node: str) -> None:
        """Implements `Target`."""
        self._cluster.changed_specifications[node] = None

    def client_launch_spec(
        self, node: str, name_servers: Sequence[str]
    ) -> tuple[LaunchSpec, Configuration]:
        """Implements `Target`."""
        if node == ADMIN:
            role = "admin"
            first_line: Configuration = {"node": node}
            if self._campaign.acl:
                first_line["credentials"] = dict(OPERATOR)
        elif node in self._cluster.topology.consumers:
            role = "consumer"
            consumer = self._cluster.consumer_config(node, name_servers)
            first_line = configuration_of(consumer, node=node)
            spec = self._cluster.spec(node)
            if spec.condensed:
                first_line["condensed"] = True
            if spec.forward_to:
                first_line["forward_to"] = spec.forward_to
            if spec.kind != PUSH:
                first_line |= {"kind": spec.kind, "share": list(spec.share)}
            if consumer.broadcast:
                first_line["offset_folder"] = f"{self._machines[node].folder}/offsets"
        else:
            role = "producer"
            producer = self._cluster.producer_config(node, name_servers)
            first_line = configuration_of(producer, topic=self._campaign.topic, node=node)
            if self._campaign.acl and self._campaign.client == "own":
                first_line["accounts"] = {name: dict(keys) for name, keys in ACCOUNTS.items()}
        module = "staticfire.harness.clients"
        is_load = node not in (ADMIN, PROBE)
        if self._campaign.client == "cpp" and is_load:
            module = "staticfire.harness.clients.cpp.client"
            first_line["log_folder"] = f"{self._machines[node].folder}/librocketmq"
        files: Mapping[str, bytes] = {}
        if self._cluster.speaks_tls(node):
            files = self.tls_files(node)
            first_line["tls_config"] = self.tls_path(node)
        if is_load and is_command(self._campaign.client):
            command = split_command(self._campaign.client)
            return LaunchSpec(argv=(*command, role), files=files), first_line
        return self._interpreter.launch_spec(module, role, files=files), first_line

    def tls_path(self, node: str) -> str:
        """Return the path of RocketMQ's tls.properties on the machine of a node."""
        return f"{self._machines[node].folder}/tls/tls.properties"

    def tls_files(self, node: str) -> dict[str, bytes]:
        """Return the files of a node with TLS, by path: one certificate for all servers, which their peers verify."""
        if self._certificate is None:
            return {}
        path = self.tls_path(node)
        folder = path.rpartition("/")[0]
        certificate, key = f"{folder}/server.pem", f"{folder}/server.key"
        properties = {
            "tls.test.mode.enable": "false",
            "tls.server.certPath": certificate,
            "tls.server.keyPath": key,
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": certificate,
        }
        if self._campaign.replica_tls:
            properties |= {
                "tls.ha.certPath": certificate,
                "tls.ha.keyPath": key,
                "tls.ha.trustCertPath": certificate,
            }
        text = java_properties.format_properties(properties)
        return {path: text.encode(), certificate: self._certificate[0], key: self._certificate[1]}
