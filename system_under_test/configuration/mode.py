"""The two ways to run a node."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """HARDENED keeps every promise; FAITHFUL behaves as Apache RocketMQ 4.9.8, known safety bugs included."""

    HARDENED = "hardened"
    FAITHFUL = "faithful"
