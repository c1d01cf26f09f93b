"""Apache RocketMQ 4.9 or 5 from a distribution folder: how its name servers and brokers are started.

The harness does not use the scripts of the distribution, which ask for 8 GiB of heap and fork. A node's folder is the
home folder of both RocketMQ and the user, so the node writes all its files there; its log is its standard error.
RocketMQ listens on all addresses of its machine, so nodes that share a machine have ports of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.machines.machine import LaunchSpec, Machine
from staticfire.harness.targets import apache_files
from staticfire.harness.targets.client_processes import ClientProcesses
from staticfire.harness.targets.interpreter import Interpreter
from staticfire.harness.targets.java import JAVA
from staticfire.harness.targets.own_cluster import (
    BROKER_PORT,
    NAME_SERVER_PORT,
    OwnCluster,
    Reach,
    directly,
)

NAME_SERVER_CLASS = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER_CLASS = "org.apache.rocketmq.broker.BrokerStartup"
NAME_SERVER_HEAP = ("-Xms32m", "-Xmx96m")
BROKER_HEAP = ("-Xms96m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m")
JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",  # Java writes no file to /tmp
    "-Djava.net.preferIPv4Stack=true",
    "-Dtls.server.mode=disabled",  # the server makes no certificate at its start
)
# RocketMQ unmaps files by an interface that Java 9 and later close. Java 8 ignores this variable and does not need it.
JDK_OPTIONS = " ".join(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.lang", "java.util")
)


class ApacheDistribution(ClientProcesses):
    """Implements `staticfire.harness.targets.target.Target`.

    Args:
        campaign: decides the nodes, and how they keep their data.
        places: the machine of each node.
        home: the folder of the distribution on the machines.
        interpreter: runs our clients.
        reach: returns the address by which a node reaches a server, such as a proxy's.
        ports: the ports of servers that share a machine.
    """

    def __init__(
        self,
        campaign: Campaign,
        machines: Mapping[str, Machine],
        *,
        home: str,
        interpreter: Interpreter,
        ports: Mapping[str, int],
        reach: Reach = directly,
    ) -> None:
        self._home = home.rstrip("/")
        self._ports = ports
        addresses = {name: machine.address for name, machine in machines.items()}
        cluster = OwnCluster(campaign, addresses, reach=reach, ports=ports)
        super().__init__(campaign, machines, cluster, interpreter)

    def server_address(self, node: str) -> str:
        return self._cluster.server_address(node)

    def store_folder(self, node: str) -> str:
        return f"{self._machines[node].folder}/store"

    def server_launch_spec(self, node: str, name_servers: Sequence[str]) -> LaunchSpec:
        machine = self._machines[node]
        topology = self._cluster.topology
        heap: tuple[str, ...]
        if node in topology.coordinators:
            role, main, heap = "namesrv", NAME_SERVER_CLASS, NAME_SERVER_HEAP
            properties = self._campaign.coordinator_properties
            port = self._ports.get(node, NAME_SERVER_PORT)
            file = apache_files.name_server_file(self._campaign, machine.folder, port)
        else:
            role, main, heap = "broker", BROKER_CLASS, BROKER_HEAP
            properties = self._campaign.broker_properties
            file = apache_files.broker_file(
                self._campaign,
                topology.replica(node),
                address=machine.address,
                port=self._ports.get(node, BROKER_PORT),
                folder=machine.folder,
                name_servers=self._cluster.name_servers_for(node, name_servers),
            )
        path = f"{machine.folder}/{role}.properties"
        logback = f"{machine.folder}/conf/logback_{role}.xml"  # the path that 4.9 reads
        return LaunchSpec(
            argv=(
                *JAVA,
                *heap,
                *JVM_OPTIONS,
                f"-Duser.home={machine.folder}",
                f"-Drocketmq.home.dir={machine.folder}",
                f"-Dlogback.configurationFile={logback}",
                f"-Drmq.logback.configurationFile={logback}",  # the path that 5 reads
                *apache_files.system_properties(dict(properties)),
                "-cp",
                f"{self._home}/conf:{self._home}/lib/*",
                main,
                "-c",
                path,
            ),
            files={path: file, logback: apache_files.LOGBACK},
            variables={"JDK_JAVA_OPTIONS": JDK_OPTIONS, "ROCKETMQ_HOME": machine.folder},
            serving=self._cluster.serving(node),
        )
