"""Some tests break the real machine, and leave it as they found it."""

from __future__ import annotations

from tests.support.real_machine import machine

__all__ = ["machine"]
