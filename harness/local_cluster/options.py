"""The options of a local cluster, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from staticfire.harness.local_cluster.errors import ClusterOptionError
from staticfire.system_under_test.runtime.env import TlsMode

FLUSH_MODES = ("sync", "async")
REPLICATION_MODES = ("sync", "async")
TLS_MODES = tuple(mode.value for mode in TlsMode)
NODES_MAX = 9  # nodes of a kind
SLAVES_MAX = 5
BROKER_PORT_DISTANCE = (
    10911 - 9876
)  # from the first name server to the first broker, as RocketMQ documents them
BROKER_PORT_STEP = 10  # a broker also uses the ports two below and one above its own
PORT_MAX = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The options of a cluster. Raises ClusterOptionError.

    `slaves` has one number for each master, or one for all. `port` is that of the first name server; 0 means free ports
    for all nodes. Without `store` the data are in a temporary folder that is removed at the end. `broker_properties`
    are names and values as in RocketMQ's `.properties` files, for all brokers.
    """

    name_servers: int = 1
    masters: int = 1
    slaves: tuple[int, ...] = (0,)
    flush: str = "async"
    replication: str = "async"
    tls: str = "permissive"
    store: Path | None = None
    port: int = 0
    faithful: bool = False
    processes: bool = False
    broker_properties: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        _check_count("name servers", self.name_servers, NODES_MAX, low=1)
        _check_count("masters", self.masters, NODES_MAX, low=1)
        for count in self.slaves:
            _check_count("slaves", count, SLAVES_MAX, low=0)
        if len(self.slaves) not in (1, self.masters):
            raise ClusterOptionError(
                f"slaves names {len(self.slaves)} masters, but there are {self.masters};"
                " give one number for each, or one for all"
            )
        _check_choice("flush", self.flush, FLUSH_MODES)
        _check_choice("tls", self.tls, TLS_MODES)
        _check_choice("replication", self.replication, REPLICATION_MODES)
        if self.replication == "sync" and 0 in self.slaves:
            raise ClusterOptionError(
                "replication is sync, but a master has no slave to wait for; allowed: at least one slave each"
            )
        self._check_port()

    @property
    def slave_counts(self) -> tuple[int, ...]:
        """The number of slaves of each master."""
        return self.slaves * self.masters if len(self.slaves) == 1 else self.slaves

    def _check_port(self) -> None:
        brokers = self.masters + sum(self.slave_counts)
        distance = BROKER_PORT_DISTANCE + BROKER_PORT_STEP * (brokers - 1) + 1
        if self.port and not 1024 <= self.port <= PORT_MAX - distance:
            raise ClusterOptionError(
                f"port is {self.port}; allowed: 0 for free ports, or 1024 to {PORT_MAX - distance}"
                f" (brokers listen from {BROKER_PORT_DISTANCE} above it)"
            )


def _check_count(what: str, count: int, high: int, *, low: int) -> None:
    if not low <= count <= high:
        raise ClusterOptionError(f"{what} is {count}; allowed: {low} to {high}")


def _check_choice(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ClusterOptionError(f"{what} is {value!r}; allowed: {', '.join(allowed)}")
