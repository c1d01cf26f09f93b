"""Errors of real machines."""

from __future__ import annotations

from staticfire.faults.errors import FaultError


class EnvironmentFailed(FaultError):
    """The machines of a run could not be made; the text is one sentence."""
