"""Our own cluster on loopback, in a thread of this process, as the target of any client library."""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.harness.conformance.case import Case
from staticfire.harness.conformance.clause import Need
from staticfire.harness.conformance.clients.processes import ProcessClients
from staticfire.harness.conformance.sites.concurrent import run_with_client
from staticfire.harness.conformance.sites.site import OnResult, SiteFailed
from staticfire.harness.conformance.target_facts import TargetFacts
from staticfire.harness.interrupts import run_interruptibly
from staticfire.harness.local_cluster.cluster import LocalCluster
from staticfire.harness.local_cluster.errors import ClusterError

MASTERS = 2
NOTHING_BREAKS = "the cluster shares a process with the suite: nothing of it can be {}"
_LACKING = {
    Need.FAULT: NOTHING_BREAKS.format("stopped or killed"),
    Need.POWER: NOTHING_BREAKS.format("cut off its power"),
    Need.FILES: "only cases of clients run here",
    Need.MULTI: "the cluster has no slave",
}


class LoopbackSite:
    """One name server and two masters in this process, and a client under test in processes of its own."""

    is_virtual = False
    makes_clusters = False

    def __init__(self, clients: ProcessClients, *, faithful: bool = False) -> None:
        self.name = f"client {clients.name}, against our cluster on loopback"
        self._clients = clients
        self._faithful = faithful

    def lacks(self, need: Need) -> str | None:
        return _LACKING.get(need)

    def run(self, cases: Sequence[Case], on_result: OnResult) -> None:
        cluster = LocalCluster(masters=MASTERS, faithful=self._faithful, tls="disabled")
        try:
            with cluster, self._clients:
                target = TargetFacts(name_servers=cluster.name_servers, prefix="conform")
                run_interruptibly(run_with_client(cases, target, self._clients, on_result))
        except ClusterError as error:
            raise SiteFailed(str(error)) from error
