"""Errors of a local cluster. Every text is one sentence."""

from __future__ import annotations


class ClusterOptionError(ValueError):
    """An option of the cluster cannot be used: what is wrong, the value, what is allowed."""


class ClusterError(Exception):
    """The cluster, or one of its nodes, could not do what it was asked."""


class NodeRefused(ClusterError):
    """A node cannot use what it was given: its store is locked, damaged or of another configuration, or its address."""


class PortInUse(ClusterError):
    """Another process listens where a node was to listen."""
