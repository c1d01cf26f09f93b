"""Continuations of a simulated run: runs that repeat it up to a virtual time and differ from there on."""
