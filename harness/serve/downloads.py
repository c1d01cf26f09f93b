"""Serves files of a run as downloads, plain text, or sandboxed pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from staticfire.harness.serve.folder import NotServed, ServedFolder
from staticfire.harness.serve.security import SANDBOXED

CHUNK = 1 << 18
PAGE_BYTES_MAX = 256 << 20  # of a report
TEXT_BYTES_MAX = 4 << 20
TEXTS = (".json", ".jsonl", ".log", ".md", ".toml", ".txt", ".xml")


def download(folder: ServedFolder, path: Sequence[str]) -> Response:
    """Return a file as a download. Raises NotServed."""
    size = _plain(folder, path)
    name = quote(path[-1], safe="")
    headers = {
        "content-length": str(size),
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
    }
    chunks = _chunks(folder.open(path), size)
    return StreamingResponse(chunks, headers=headers, media_type="application/octet-stream")


def is_text(name: str, size: int) -> bool:
    """Whether a file can be shown as text."""
    return name.endswith(TEXTS) and size <= TEXT_BYTES_MAX


def as_text(folder: ServedFolder, path: Sequence[str]) -> Response:
    """Return a file as plain text, whatever its content. Raises NotServed."""
    if not path[-1].endswith(TEXTS):
        raise NotServed(f"{path[-1]} is no text")
    data = folder.read(path, TEXT_BYTES_MAX)
    return Response(data, media_type="text/plain; charset=utf-8")


def as_page(folder: ServedFolder, path: Sequence[str]) -> Response:
    """Return a page of the folder in a sandbox: its scripts run as those of a foreign site. Raises NotServed."""
    return sandboxed(folder.read(path, PAGE_BYTES_MAX))


def sandboxed(data: bytes) -> Response:
    """Return a page whose scripts run as those of a foreign site."""
    headers = {"content-security-policy": SANDBOXED}
    return Response(data, headers=headers, media_type="text/html; charset=utf-8")


def _plain(folder: ServedFolder, path: Sequence[str]) -> int:
    entry = folder.entry(path)
    if entry.is_folder:
        raise NotServed(f"{path[-1]} is a folder")
    return entry.size


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the file up to its length at the beginning of the answer, also if it grows."""
    with file:
        while size > 0:
            data = file.read(min(CHUNK, size))
            if not data:
                return
            size -= len(data)
            yield data
