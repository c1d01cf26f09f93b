"""The folder of a cluster: given and kept, or temporary. A kept folder stores the port of each node.

Ids of stored messages hold the address of their broker, so a cluster comes back at its old addresses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from staticfire.harness.local_cluster.errors import ClusterError, ClusterOptionError
from staticfire.harness.temporary import TemporaryFolder

FILE_NAME = "cluster.json"


class StoreFolder:
    """The folder's path is known before it is made, so that `close` removes it whenever an interrupt comes."""

    def __init__(self, given: Path | None) -> None:
        self.ports: dict[str, int] = {}
        self._temporary: TemporaryFolder | None = None
        if given is None:
            self._temporary = TemporaryFolder("rocketmq-")
            self.path = self._temporary.path
        else:
            self.path = given.absolute()

    def open(self) -> None:
        """Make the folder, or read its stored ports. Raises ClusterOptionError if it cannot be used."""
        try:
            if self._temporary is not None:
                self._temporary.make()
            self.log_folder.mkdir(parents=True, exist_ok=True)
            self.ports = self._read()
        except OSError as error:
            raise ClusterOptionError(
                f"store {self.path} cannot be used: {error.strerror}"
            ) from error

    @property
    def is_temporary(self) -> bool:
        return self._temporary is not None

    @property
    def log_folder(self) -> Path:
        return self.path / "logs"

    @property
    def is_new(self) -> bool:
        """Whether no cluster has ever run here."""
        return not self.ports

    def check_nodes(self, names: Sequence[str]) -> None:
        """Raises ClusterOptionError if brokers with data would be left out."""
        missing = sorted(
            name for name in self.ports if name.startswith("broker-") and name not in names
        )
        if missing:
            raise ClusterOptionError(
                f"store {self.path} has data of {', '.join(missing)}, which this cluster would not have;"
                " start it with as many masters and slaves as before, or choose another folder"
            )

    def remember(self, ports: Mapping[str, int]) -> None:
        """Raises ClusterError."""
        self.ports = dict(ports)
        try:
            (self.path / FILE_NAME).write_text(json.dumps({"ports": self.ports}), encoding="utf-8")
        except OSError as error:
            raise ClusterError(
                f"{self.path / FILE_NAME} cannot be written: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Remove a temporary folder."""
        if self._temporary is not None:
            self._temporary.remove()

    def _read(self) -> dict[str, int]:
        path = self.path / FILE_NAME
        if not path.exists():
            return {}
        try:
            ports = json.loads(path.read_text(encoding="utf-8"))["ports"]
            return {str(name): int(port) for name, port in ports.items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ClusterOptionError(
                f"{path} is not what a cluster writes there; remove it, or choose another folder"
            ) from None
