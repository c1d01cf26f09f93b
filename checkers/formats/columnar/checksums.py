"""Checksums that tie the files of one run together.

The document with the facts of a run (`verdict.json`, or `facts.json` of a synthetic history) also holds:

    "checksums": {"files": {"history.jsonl": {"bytes": 1642662, "sha256": "9f..."}, ...},
                  "document": "3c..."}

`document` is the SHA-256 of the rest of the document as JSON with sorted keys. The checksum of the manifest covers
columns, because the manifest holds one of each part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from staticfire.checkers.formats.columnar.files import crc_of_file
from staticfire.checkers.formats.columnar.manifest import read_manifest
from staticfire.checkers.formats.columnar.schema import EVENTS, FOLDER, MANIFEST
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.model.plain_files import plain_size

CHECKSUMS = "checksums"
FILES = (
    "campaign.toml",
    "faults.jsonl",
    "history.jsonl",
    "observations.jsonl",
    f"{FOLDER}/{MANIFEST}",
)


def with_checksums(
    document: Mapping[str, object], run: Path, names: Sequence[str] = FILES
) -> dict[str, object]:
    """Return the document with checksums of itself and of those files that exist in the folder `run`.

    Raises OSError.
    """
    files = {name: _of_file(run / name) for name in names if (run / name).exists()}
    return {**document, CHECKSUMS: {"files": files, "document": _of_document(document)}}


def verify_checksums(document: Mapping[str, Any], path: Path) -> bool:
    """Compare a run with the checksums in its document, which was read from `path` in the folder of the run.

    Returns False if it has none. A missing file is not compared. Raises HistoryError that names the file that differs,
    and OSError.
    """
    if CHECKSUMS not in document:
        return False
    rest = {name: value for name, value in document.items() if name != CHECKSUMS}
    try:
        files = dict(document[CHECKSUMS]["files"])
        claimed = {name: (of["bytes"], of["sha256"]) for name, of in files.items()}
        expected = document[CHECKSUMS]["document"]
    except (KeyError, TypeError, ValueError) as error:
        raise HistoryError(f"the checksums in {path} are damaged: {error!r}") from error
    if _of_document(rest) != expected:
        raise HistoryError(
            f"{path} is not what the run wrote: its own checksum differs, so it was damaged or edited"
        )
    for name, (size, sha256) in claimed.items():
        _compare(path.parent / name, size, sha256, path.name)
    return True


def verify_columns(folder: Path) -> None:
    """Compare the files of a history in columns with its manifest. Raises HistoryError, OSError."""
    manifest = read_manifest(folder)
    parts = [
        (part.path, part.bytes, part.crc32)
        for part in (*manifest.message_events, *manifest.op_parts)
    ]
    for name, size, crc32 in (*parts, (EVENTS, manifest.events.bytes, manifest.events.crc32)):
        path = folder / name
        if not path.exists():
            raise HistoryError(f"{path} is missing: the manifest of the history names it")
        if crc_of_file(path, size) != crc32:
            raise HistoryError(f"{path} differs from its checksum in {MANIFEST}: it was damaged")


def _compare(file: Path, size: int, sha256: str, document: str) -> None:
    if not file.exists():
        return
    if (there := file.stat().st_size) != size:
        raise HistoryError(
            f"{file} has {there} bytes, and {document} says {size}: it was cut or edited, or is of another run"
        )
    if _of_file(file)["sha256"] != sha256:
        raise HistoryError(
            f"{file} differs from its checksum in {document}: it was damaged or edited, or is of another run"
        )


def _of_file(path: Path) -> dict[str, object]:
    plain_size(path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "sha256": digest}


def _of_document(document: Mapping[str, object]) -> str:
    plain = orjson.loads(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))
    return hashlib.sha256(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)).hexdigest()
