"""The state folder, in which runs record what they make on machines, so that `staticfire clean` finds it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

VARIABLE = "STATICFIRE_STATE"


def state_folder() -> Path:
    """Return `STATICFIRE_STATE`, or a folder of this user among the temporary files."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else Path(tempfile.gettempdir()) / f"staticfire-{os.getuid()}"
