"""Makes this process run a system under test with a planted bug: the copy goes first on the import path.

It must happen before anything imports the system, so the commands import what needs it late.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import logging
import shutil
import sys
from pathlib import Path

import staticfire
from staticfire.faults.defects import SYSTEM, DefectError, defect_named, plant
from staticfire.harness.temporary import TemporaryFolder


def use_defect(name: str) -> Path | None:
    """Plant the defect for this process; nothing happens for an empty name. Returns the folder of the copy.

    Raises DefectError for an unknown one, or if the sound system was imported already.
    """
    if not name:
        return None
    defect = defect_named(name)
    package = f"{staticfire.__name__}.{SYSTEM}"
    if package in sys.modules:
        raise DefectError(f"{package} was imported before defect {name} could be planted")
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    temporary = TemporaryFolder("staticfire-defect-")
    atexit.register(temporary.remove)
    folder = temporary.make()
    logging.getLogger("patch_ng").setLevel(logging.ERROR)
    part = folder / staticfire.__name__
    part.mkdir()
    shutil.copy(staticfire.__file__, part)
    plant(defect, Path(next(iter(spec.submodule_search_locations))), part)
    sys.path.insert(0, str(folder))  # for processes that this one starts
    staticfire.__path__.insert(0, str(part))
    importlib.invalidate_caches()
    return folder
