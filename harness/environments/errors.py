"""What goes wrong with real machines."""

from __future__ import annotations


class EnvironmentFailed(Exception):
    """Machines could not be made as asked; the text is one sentence."""
