"""Errors of real machines."""

from __future__ import annotations

from staticfire.faults.errors import FaultError


class EnvironmentFailed(FaultError):
    """Machines could not be made as asked; the text is one sentence."""
