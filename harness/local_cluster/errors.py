"""Errors of a local cluster. Every text is one sentence."""

from __future__ import annotations


class ClusterOptionError(ValueError):
    """An option of the cluster cannot be used. One sentence: the error, the value, what is allowed."""


class ClusterError(Exception):
    """The cluster, or one of its nodes, failed."""


class NodeRefused(ClusterError):
    """A node cannot use its address, or its store, which is locked, damaged or of another configuration."""


class PortInUse(ClusterError):
    """Another process listens on the port of a node."""
