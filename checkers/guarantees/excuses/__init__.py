"""Excuses: the faults that make an anomaly legal, on which nodes, and for how long."""
