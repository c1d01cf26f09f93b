"""Makes this process run a system under test with a planted bug: the copy goes first on the import path.

It must happen before anything imports the system, so the commands import what needs it late.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import logging
import sys
from pathlib import Path

from faults.defects import SYSTEM, DefectError, defect_named, plant
from harness.temporary import TemporaryFolder


def use_defect(name: str) -> Path | None:
    """Plant the defect for this process; nothing happens for an empty name. Returns the folder of the copy.

    Raises DefectError for an unknown one, or if the sound system was imported already.
    """
    if not name:
        return None
    defect = defect_named(name)
    if SYSTEM in sys.modules:
        raise DefectError(f"{SYSTEM} was imported before defect {name} could be planted")
    spec = importlib.util.find_spec(SYSTEM)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    temporary = TemporaryFolder("staticfire-defect-")
    atexit.register(temporary.remove)
    folder = temporary.make()
    logging.getLogger("patch_ng").setLevel(logging.ERROR)
    plant(defect, Path(next(iter(spec.submodule_search_locations))), folder)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    return folder
