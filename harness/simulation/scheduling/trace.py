"""The digest of a run: two runs of one seed are the same run exactly when their digests are equal.

Level 0 records nothing. Level 1 (the default) records when each turn of each event loop happened and how many callbacks
it had, the end of each process, and every byte string the recorder adds. Level 2 adds every callback by name, every
segment with its checksum, and log lines, so that the first difference between two runs names its cause. `sink` gets
each record at once.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from hashlib import sha256

Record = tuple[int | str | bytes, ...]

# marshal format 2 has neither references nor interning flags: equal contents give equal bytes.
MARSHAL_VERSION = 2
BLOCK_RECORDS = 4096


class Trace:
    """Collects records and hashes them in blocks of `BLOCK_RECORDS`.

    `block_digests` holds the running digest after every full block. The first one that differs between two runs locates
    their first difference, without the records.
    """

    __slots__ = ("_block", "_hash", "_sink", "block_digests", "labelled", "level")

    def __init__(self, level: int = 1, sink: Callable[[Record], None] | None = None) -> None:
        if level not in (0, 1, 2):
            raise ValueError(f"trace level is {level!r}; allowed: 0, 1, 2")
        self.level = level
        self.labelled = level >= 2
        self.block_digests: list[str] = []
        self._sink = sink
        self._block: list[Record] = []
        self._hash = sha256()

    def record(self, *fields: int | str | bytes) -> None:
        """Add one record. Fields must be plain values that do not depend on addresses or hash order."""
        if not self.level:
            return
        block = self._block
        block.append(fields)
        if self._sink is not None:
            self._sink(fields)
        if len(block) >= BLOCK_RECORDS:
            self._hash_block()
            self.block_digests.append(self._hash.hexdigest())

    def record_bytes(self, data: bytes) -> None:
        """Add bytes of the caller's own format, such as one line of the history."""
        self.record("bytes", data)

    @property
    def count(self) -> int:
        """Return the number of records so far."""
        return len(self.block_digests) * BLOCK_RECORDS + len(self._block)

    def digest(self) -> str:
        """Return the SHA-256 over all records so far, in hexadecimal; recording may continue."""
        so_far = self._hash.copy()
        so_far.update(marshal.dumps(self._block, MARSHAL_VERSION))
        return so_far.hexdigest()

    def _hash_block(self) -> None:
        self._hash.update(marshal.dumps(self._block, MARSHAL_VERSION))
        self._block.clear()
