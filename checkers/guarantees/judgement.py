"""The judgement of an anomaly: a violation, allowed, or informational."""

from __future__ import annotations

from enum import StrEnum


class Judgement(StrEnum):
    """The meaning of an anomaly under the profile of the run."""

    VIOLATION = "violation"
    ALLOWED = "allowed"
    INFORMATIONAL = "informational"  # a documented hazard: reported, but never a failure
