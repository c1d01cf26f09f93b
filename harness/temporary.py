"""A folder among the temporary files that `staticfire clean` removes if the process that made it is killed."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.inventory import Inventory
from staticfire.faults.linux.resources import Resource
from staticfire.harness.state import state_folder


class TemporaryFolder:
    """A temporary folder. Its path is known at once, and recorded before `make` if the state folder can be used."""

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.gettempdir(), f"{prefix}{secrets.token_hex(8)}")
        self._inventory: Inventory | None = None

    def make(self) -> Path:
        """Raises OSError."""
        with suppress(FaultError):
            self._inventory = Inventory.begin(state_folder())
            self._inventory.will_make(self._resource)
        self.path.mkdir(mode=0o700)
        return self.path

    def remove(self) -> None:
        """Remove the folder; if that fails, its record stays. May be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        inventory, self._inventory = self._inventory, None
        if inventory is not None:
            if not self.path.exists():
                inventory.is_gone(self._resource)
            inventory.close()

    @property
    def _resource(self) -> Resource:
        return Resource(kind="folder", name=str(self.path))
