"""The interface of an environment: starts nodes, sends them requests, reads their logs and files.

The simulation and real machines implement it. Generators, clients, nemesis and checkers do not depend on which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Protocol

from staticfire.faults.model.topology import Topology
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.environments.resources import Resources
from staticfire.harness.log_line import LogLine
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.results.run_result import NodeRecord

FIRST_CONSUMER_PROCESS = 100_000  # process number of ops that the first client process emits
ANSWER_S = 300.0  # for a client to answer a request; longer than any fault prevents an answer
RESTART_DELAY_S = 2.0  # a supervisor's pause before it restarts a node that ended by itself


class Environment(Protocol):
    """The nodes of one run."""

    campaign: Campaign
    recorder: Recorder
    topology: Topology

    def now_ns(self) -> int:
        """Return the run's clock: nanoseconds since its start."""
        ...

    def stream(self, purpose: str) -> Random:
        """Return the seeded random stream for one purpose."""
        ...

    def server_address(self, node: str) -> str:
        """Return `host:port` of a name server or broker."""
        ...

    def is_lost(self, node: str) -> bool:
        """Whether the node's disk is lost for good."""
        ...

    def is_dead(self, node: str) -> bool:
        """Whether the node has repeatedly ended by itself, so that the harness no longer waits for it."""
        ...

    def booting_ns(self) -> int:
        """Return how long boots of servers have delayed the plan so far, in nanoseconds."""
        ...

    def is_external(self, node: str) -> bool:
        """Whether a server belongs to an external cluster, which the harness cannot start or inspect."""
        ...

    def change_specification(self, node: str) -> None:
        """Give the consumer, from its next start on, the specification that its workload calls `changed`."""
        ...

    def set_bootstrap(self, node: str, bootstrap: Sequence[str]) -> None:
        """Set the name servers that the node gets at its next start; an empty list means all."""
        ...

    def states(self) -> Mapping[str, str]:
        """Return the state of each server and client, as one word."""
        ...

    async def start(self, node: str) -> None:
        """Start the node unless it runs, has no power or is lost."""
        ...

    def end_silent_clients(self) -> None:
        """End each client that has not answered a request for `ANSWER_S`, if requests have no time limit here."""
        ...

    async def end_client(self, node: str) -> None:
        """Kill the process of a client, if it runs; it stays down."""
        ...

    async def resources(self, node: str) -> Resources | None:
        """Return the resources of a server's process; None if it does not run or cannot be inspected."""
        ...

    async def ready(self, node: str) -> None:
        """Wait until the client process of this node runs."""
        ...

    async def clients_open(self) -> None:
        """Wait until each client has opened, so that no fault strikes while clients start; at most `OPEN_S`."""
        ...

    async def request(self, node: str, request: Request) -> Outcome:
        """Send a client a request; return its outcome."""
        ...

    def log_lines(self, node: str) -> Iterable[LogLine]:
        """Return the log of a server over all its processes."""
        ...

    async def store_files(self, node: str) -> Mapping[str, bytes]:
        """Return the files of a server by path, as a process there would read them."""
        ...

    def node_record(self, name: str, *, keeps_store: bool) -> NodeRecord:
        """Return the data of a server that the run keeps."""
        ...

    def digest(self) -> str:
        """Return the digest of all events of the run."""
        ...


def living_replicas(environment: Environment, replica_set: str) -> list[str]:
    """Return the replicas of the set that are not lost for good, in the order of the topology."""
    replicas = environment.topology.replicas_of(replica_set)
    return [replica.node for replica in replicas if not environment.is_lost(replica.node)]
