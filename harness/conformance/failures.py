"""Reasons for which a case ends without a pass."""

from __future__ import annotations


class ClauseBroken(AssertionError):
    """The target does not keep the clause: what was asked, what was expected, what came."""


class NotTriable(Exception):
    """The clause cannot be tried with what is there, which is no failure: one sentence."""


class TargetUnfit(Exception):
    """The target is not in the state that a case begins with: no master, a topic that cannot be made."""


class BadAnswer(Exception):
    """An answer cannot be read: the target broke the protocol."""
