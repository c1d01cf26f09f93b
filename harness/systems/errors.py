"""Errors of systems under test and of their runs."""

from __future__ import annotations


class RunError(Exception):
    """The run could not be carried out: the harness failed, or the cluster never came up."""


class SystemRefused(ValueError):
    """There is no such system, or its declaration is wrong. The text is one sentence."""
