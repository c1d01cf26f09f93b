"""The face of an environment: starts nodes, carries requests to them, reads what they left.

The simulation and real machines implement this; generators, clients, nemesis and checkers do not know which it is.
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

FIRST_CONSUMER_PROCESS = (
    100_000  # the number under which the first client process emits ops of its own
)
RESTART_DELAY_S = 2.0  # before a node that ended by itself is started again, as a supervisor would


class Environment(Protocol):
    """The nodes of one run."""

    campaign: Campaign
    recorder: Recorder
    topology: Topology

    def now_ns(self) -> int:
        """The run's clock: nanoseconds from its beginning."""
        ...

    def stream(self, purpose: str) -> Random:
        """Seeded randomness for one purpose."""
        ...

    def server_address(self, node: str) -> str:
        """`host:port` of a name server or broker."""
        ...

    def is_lost(self, node: str) -> bool:
        """Whether the node's disk is gone for good."""
        ...

    def is_dead(self, node: str) -> bool:
        """Whether the node has ended by itself again and again: it is not waited for any more."""
        ...

    def booting_ns(self) -> int:
        """For how long, so far, servers that were started have kept the plan waiting."""
        ...

    def is_external(self, node: str) -> bool:
        """Whether a server is not ours: it is asked, but neither started nor looked into."""
        ...

    def ask_anew(self, node: str) -> None:
        """The consumer asks for other messages from its next start on: those that its workload calls `changed`."""
        ...

    def set_bootstrap(self, node: str, bootstrap: Sequence[str]) -> None:
        """The name servers that the node is given at its next start; none of them means all."""
        ...

    def states(self) -> Mapping[str, str]:
        """What each server and client is doing, in a word."""
        ...

    async def start(self, node: str) -> None:
        """Start the node unless it runs, has no power or is lost."""
        ...

    async def end_client(self, node: str) -> None:
        """Kill the process of a client, if it runs; it stays down."""
        ...

    async def resources(self, node: str) -> Resources | None:
        """What the process of a server holds; None if it does not run, or cannot be looked into."""
        ...

    async def ready(self, node: str) -> None:
        """Wait until the client process of this node runs."""
        ...

    async def request(self, node: str, request: Request) -> Outcome:
        """Let a client carry out a request."""
        ...

    def log_lines(self, node: str) -> Iterable[LogLine]:
        """What all lives of a server have logged."""
        ...

    async def store_files(self, node: str) -> Mapping[str, bytes]:
        """The files of a server by path, as a process there would read them."""
        ...

    def node_record(self, name: str, *, keeps_store: bool) -> NodeRecord:
        """The record of a server that is kept after the run."""
        ...

    def digest(self) -> str:
        """Of everything that happened."""
        ...
