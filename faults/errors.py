"""Errors of faults."""

from __future__ import annotations


class FaultError(Exception):
    """A fault could not be planned, fired or healed. The text names it and the reason."""


class CapabilityMissing(FaultError):
    """This environment lacks a capability that a fault needs."""
