"""Offsets of groups and of broadcast members, and where queues begin and end."""
