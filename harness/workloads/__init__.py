"""Workloads: each asks one question about a queue, and says which ops and consumers ask it."""
