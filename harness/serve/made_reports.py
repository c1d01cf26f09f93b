"""Makes reports on request for runs without one in their folder, one at a time."""

from __future__ import annotations

import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from staticfire.checkers.model.history import HistoryError
from staticfire.harness.serve.folder import DEPTH_MAX, ServedFolder

BYTES_MAX = 256 << 20  # of a run; for a larger one users run the command
FILES_MAX = 5000
KEPT_MAX = 8
WAIT_S = 120.0  # seconds to wait for the previous report
CHUNK = 1 << 20


class ReportRefused(Exception):
    """A report cannot be made; the text is one sentence."""


class ReportMaker:
    """Makes reports from a copy of the run, copied through the served folder, so that no link leads outside."""

    def __init__(self, folder: ServedFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, object], bytes] = OrderedDict()

    def page(self, name: str) -> bytes:
        """Return the report of a finished run. Raises ReportRefused, NotServed."""
        entry = self._folder.entry((name, "verdict.json"))
        key = name, (entry.size, entry.changed_ns, entry.number)
        if not self._lock.acquire(timeout=WAIT_S):
            raise ReportRefused("other reports are being made; ask again later")
        try:
            if key not in self._kept:
                self._kept[key] = self._made(name)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
            return self._kept[key]
        finally:
            self._lock.release()

    def _made(self, name: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="staticfire-serve-") as above:
            self._copy(name, Path(above))
            try:
                text = _write(Path(above) / name)
            except HistoryError as error:
                said = str(error).replace(f"{above}/", "")
                raise ReportRefused(said) from error
            text = text.replace(above, str(self._folder.root))  # in the commands for next steps
        return text.encode(errors="backslashreplace")

    def _copy(self, name: str, above: Path) -> None:
        """Raises ReportRefused, NotServed."""
        size = 0
        for count, path in enumerate(_files(self._folder, (name,))):
            target = above.joinpath(*path)
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._folder.open(path) as source, target.open("wb") as file:
                while data := source.read(CHUNK):
                    size += len(data)
                    if size > BYTES_MAX or count >= FILES_MAX:
                        raise ReportRefused(
                            f"the run is too large for a report made here; `staticfire report` makes it in "
                            f"its folder (at most {BYTES_MAX >> 20} MiB in {FILES_MAX} files)"
                        )
                    file.write(data)


def _files(folder: ServedFolder, path: tuple[str, ...]) -> Iterator[Sequence[str]]:
    if len(path) >= DEPTH_MAX:
        return
    for entry in folder.entries(path):
        inner = (*path, entry.name)
        if entry.is_folder:
            yield from _files(folder, inner)
        else:
            yield inner


def _write(run: Path) -> str:
    """Return the report of a run folder. Raises HistoryError."""
    from staticfire.harness.html_report.recorded_run import read_recorded
    from staticfire.harness.html_report.report import html_report

    return html_report(read_recorded(run, lambda _line: None))
