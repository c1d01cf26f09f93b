"""A RocketMQ cluster on loopback for tests and programs: `with LocalCluster() as cluster:`, `staticfire cluster up`.

By default every node runs on one event loop in a thread of this process: that starts in a fraction of a second and
costs one interpreter. With `processes=True` each node is a process of its own, which can be killed.
"""

from staticfire.harness.local_cluster.cluster import LocalCluster
from staticfire.harness.local_cluster.errors import (
    ClusterError,
    ClusterOptionError,
    NodeRefused,
    PortInUse,
)
from staticfire.harness.local_cluster.layout import Node

__all__ = ["ClusterError", "ClusterOptionError", "LocalCluster", "Node", "NodeRefused", "PortInUse"]
