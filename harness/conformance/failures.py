"""Reasons for which a case ends without a pass."""

from __future__ import annotations


class ClauseBroken(AssertionError):
    """The target breaks the clause. The text has the request, the expectation and the answer."""


class NotTriable(Exception):
    """The clause cannot be tried on this target, which is no failure. The text says why in one sentence."""


class TargetUnfit(Exception):
    """The target is not in the state that a case begins with: no master, a topic that cannot be made."""


class BadAnswer(Exception):
    """An answer cannot be read: the target broke the protocol."""
