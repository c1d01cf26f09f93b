"""Judges an anomaly: a violation, allowed, or a documented hazard."""

from __future__ import annotations

from enum import StrEnum


class Judgement(StrEnum):
    """What an anomaly means under the profile of the run."""

    VIOLATION = "violation"
    ALLOWED = "allowed"
    INFORMATIONAL = "informational"  # a documented hazard: shown, never red
