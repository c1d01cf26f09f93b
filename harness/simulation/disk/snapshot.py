"""The files of a simulated disk at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from staticfire.harness.simulation.disk.inode import Content


class Snapshot(Mapping[str, bytes]):
    """Content by path. Reading a file creates the zeros of ranges that were never written."""

    def __init__(self, files: Iterable[tuple[str, Content]]) -> None:
        self._files = {path: (bytes(content.data), content.size) for path, content in files}

    def __getitem__(self, path: str) -> bytes:
        data, size = self._files[path]
        return data.ljust(size, b"\0")

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, path: object) -> bool:
        return path in self._files
