"""Faults that a test injects into a `LocalCluster`, undone when its `with` block ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from staticfire.harness.local_cluster.cluster import LocalCluster
from staticfire.harness.local_cluster.errors import ClusterError


class ClusterFaults:
    """Kills, stops and freezes nodes. The cluster must have been made with `processes=True`.

    Raises ClusterError for a cluster whose nodes share this process, and for an unknown node.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        if not cluster.options.processes:
            raise ClusterError(
                'nodes share this process and cannot be broken; make the cluster with {"processes": True}'
            )
        self._cluster = cluster
        self._frozen: set[str] = set()

    def kill(self, node: str) -> None:
        """Send SIGKILL to a node. The page cache survives."""
        self.thaw(node)
        self._cluster.kill_node(node)

    def stop(self, node: str) -> None:
        """End a node gracefully."""
        self.thaw(node)
        self._cluster.stop_node(node)

    def start(self, node: str) -> None:
        """Start a node that was killed or stopped."""
        self._cluster.start_node(node)

    def freeze(self, node: str) -> None:
        """Send SIGSTOP to a node: connections stay open, but no answer comes."""
        os.kill(self._pid(node), signal.SIGSTOP)
        self._frozen.add(node)

    def thaw(self, node: str) -> None:
        """Send SIGCONT to a node; does nothing if it is not frozen."""
        if node in self._frozen:
            os.kill(self._pid(node), signal.SIGCONT)
            self._frozen.discard(node)

    @contextmanager
    def frozen(self, node: str) -> Iterator[None]:
        """Freeze a node within the `with` block."""
        self.freeze(node)
        try:
            yield
        finally:
            self.thaw(node)

    def heal(self) -> None:
        """Thaw frozen nodes and start ended ones."""
        for node in sorted(self._frozen):
            self.thaw(node)
        for one in self._cluster.nodes:
            if self._cluster.pid(one.name) is None:
                self._cluster.start_node(one.name)

    def _pid(self, node: str) -> int:
        if node not in {one.name for one in self._cluster.nodes}:
            names = ", ".join(one.name for one in self._cluster.nodes)
            raise ClusterError(f"there is no node {node!r:.80}; there are: {names}")
        pid = self._cluster.pid(node)
        if pid is None:
            raise ClusterError(f"{node} does not run")
        return pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()
