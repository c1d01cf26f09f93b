"""Offsets of groups and of broadcast members, and bounds of queues."""
