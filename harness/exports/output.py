"""Opens the file of an export, which appears under its name once it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` at the end; after an error the former file stays. A device is written directly.

    Raises OSError.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
