"""Clients of a run. Each is a process of its own, which applies every op to the target once."""
