"""The results of a hunt, and a file with a row for each, which keeps them however the hunt ends."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO

from staticfire.harness.cli.hunt.row_files import encoded, line_of, read_rows
from staticfire.harness.cli.hunt.seeds import SeedResult
from staticfire.harness.cli.status import BadInput, HarnessError


class Rows:
    """Writes lines to `<out>.part` as results come; a finished hunt leaves them in `out`, by workload and seed.

    A pipe or a device gets the lines as they come. Raises BadInput, before the work, if `out` cannot be written.
    Without `out` the results are kept in memory alone. `former` are results of an interrupted hunt.
    """

    def __init__(self, out: Path | None, *, former: Sequence[SeedResult] = ()) -> None:
        self.results: list[SeedResult] = list(former)
        self._out = out
        self._stream: BinaryIO | None = None
        self._part: Path | None = None
        if out is None:
            return
        try:
            if not out.exists() or out.is_file():
                target = out.resolve()
                self._part = target.with_name(target.name + ".part")
            self._stream = (self._part or out).open("wb", buffering=0)
            if former:
                self._stream.write(b"".join(map(line_of, former)))
        except OSError as error:
            raise BadInput(f"--out {out} cannot be written: {error.strerror}") from error

    @property
    def where(self) -> str:
        """Return, as the end of a sentence, which file has the results of an unfinished hunt."""
        return "" if self._part is None else f"; their rows are in {self._part}"

    def add(self, result: SeedResult) -> None:
        """Raises HarnessError."""
        self.results.append(result)
        if self._stream is not None:
            try:
                self._stream.write(line_of(result))
            except OSError as error:
                raise self._cannot_write(error) from error

    def finish(self) -> None:
        """Write the rows in order. Until that is done, the .part file has all of them. Raises HarnessError."""
        if self._part is None:
            return
        target = self._part.with_suffix("")
        ordered = target.with_name(target.name + ".new")
        try:
            ordered.write_bytes(encoded(self.results, target))
            ordered.replace(target)
            self._part.unlink()
        except OSError as error:
            ordered.unlink(missing_ok=True)
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: OSError) -> HarnessError:
        return HarnessError(f"--out {self._out} cannot be written: {error.strerror}")

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()


def former_results(out: Path, options: Collection[str], commit: str) -> list[SeedResult]:
    """Return the results that an interrupted hunt left for `out`, without a torn line.

    Raises BadInput if the options or the commit differ, or the file is none of a hunt.
    """
    target = out.resolve()
    part = target.with_name(target.name + ".part")
    path = part if part.exists() else target
    try:
        results = read_rows(path)
    except FileNotFoundError:
        return []  # no hunt was interrupted
    except OSError as error:
        raise BadInput(f"--out {path} cannot be read: {error.strerror}") from error
    if any(result.options not in options for result in results):
        raise BadInput(f"{path} holds rows of a hunt with other options; choose another --out")
    for result in results:
        if result.commit != commit:
            raise BadInput(
                f"{path} holds rows of {_named(result.commit)} and the code is that of {_named(commit)}; choose "
                "another --out, and `staticfire hunt merge` puts both together"
            )
    return results


def _named(commit: str) -> str:
    return f"commit {commit}" if commit else "no commit"
