"""Reads files of a history safely: it refuses pipes, which may be endless, and files that are larger than a bound."""

from __future__ import annotations

from pathlib import Path

from staticfire.checkers.model.history import HistoryError

DOCUMENT_BYTES_MAX = 1 << 30  # of a file that is read as a whole


def plain_size(path: Path) -> int:
    """Return the size of a file in bytes. Raises HistoryError for a pipe, a device or a folder; OSError if missing."""
    size = path.stat().st_size
    if not path.is_file():
        raise HistoryError(f"{path} is no plain file; a history is made of plain files")
    return size


def read_plain(path: Path, bytes_max: int = DOCUMENT_BYTES_MAX) -> bytes:
    """Return the content of a file. Raises HistoryError as `plain_size` does, or for more than `bytes_max`; OSError."""
    size = plain_size(path)
    if size > bytes_max:
        raise HistoryError(f"{path} has {size} bytes; at most {bytes_max} are read")
    with path.open("rb") as file:
        return file.read(bytes_max)
