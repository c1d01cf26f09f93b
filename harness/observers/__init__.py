"""Observations beside the load: probes, drains, queries, routes, resources, coverage counters."""
