"""config/delayOffset.json: the delivery offset of each delay level (RocketMQ, ScheduleMessageService.encode)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from staticfire.system_under_test.store.metadata_file import MetadataFile


class DelayOffsetsFile:
    """Keeps offsets by level in a file, which it writes in another thread and only if they have changed."""

    def __init__(self, file: MetadataFile) -> None:
        self._file = file
        self._saved: dict[int, int] = {}

    def load(self) -> dict[int, int]:
        """Offsets by level, from 1; {} without a file. Raises ValueError for a malformed document."""
        document = self._file.load()
        self._saved = {} if document is None else delay_offsets_from_json(document)
        return dict(self._saved)

    async def save(self, offsets: dict[int, int]) -> None:
        """Write the offsets. Raises OSError; the next call tries again."""
        if offsets == self._saved:
            return
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._file.save, delay_offsets_to_json(offsets))
        self._saved = offsets


def delay_offsets_to_json(offsets: Mapping[int, int]) -> dict[str, object]:
    """The document of the file and of code 45."""
    return {"offsetTable": {str(level): offset for level, offset in offsets.items()}}


def delay_offsets_from_json(document: Mapping[str, object]) -> dict[int, int]:
    """Read `{"offsetTable": {level: offset}}`. Raises ValueError."""
    table = document.get("offsetTable", {})
    if not isinstance(table, Mapping):
        raise ValueError(f"offsetTable is {type(table).__name__}, not an object")  # noqa: TRY004
    offsets: dict[int, int] = {}
    for level, offset in table.items():
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise ValueError(
                f"offset of delay level {level} is {offset!r}; a number from 0 is needed"
            )
        offsets[int(level)] = offset
    return offsets
