"""Errors of faults."""

from __future__ import annotations


class FaultError(Exception):
    """A fault could not be planned, fired or healed. The text says which and why."""


class CapabilityMissing(FaultError):
    """A fault asks for a capability that this environment lacks."""
