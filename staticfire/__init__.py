"""Staticfire: fault injection and conformance for RocketMQ-style message queues.

The folders of the project are its subpackages: `staticfire.harness`, `staticfire.checkers`, and so on.
"""

from __future__ import annotations

import os
from pathlib import Path
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticfire.harness.local_cluster import LocalCluster

__all__ = ["LocalCluster"]

# A folder earlier on the import path may hold a part alone, such as a system with a planted bug.
__path__ = extend_path(__path__, __name__)

if _build := os.environ.get("STATICFIRE_COMPILED"):
    from staticfire.harness.compiled import use_build

    use_build(Path(_build), __path__)


def __getattr__(name: str) -> Any:
    """Import `LocalCluster` when it is asked for: a command that needs no system should not wait for it."""
    if name == "LocalCluster":
        from staticfire.harness.local_cluster import LocalCluster

        return LocalCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
