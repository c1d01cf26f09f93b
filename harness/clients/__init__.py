"""Clients of a run: each a process of its own that applies ops to the target, once."""
