"""Exceptions that end a case without a pass."""

from __future__ import annotations


class ClauseBroken(AssertionError):
    """The target breaks the clause. The text names the request, the expectation and the answer."""


class NotTriable(Exception):
    """The clause cannot be tested on this target. This is no failure; the text gives the reason."""


class TargetUnfit(Exception):
    """The target lacks a precondition of a case, for example a master or the permission to make a topic."""


class BadAnswer(Exception):
    """An answer of the target cannot be decoded, which breaks the protocol."""
