"""Targets: how each node of a system is configured and started."""
