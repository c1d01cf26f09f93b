"""Makes the report of a run folder: reads the run, makes the page, writes it."""

from __future__ import annotations

from pathlib import Path

from staticfire.harness.html_report.page import render
from staticfire.harness.html_report.panels import panels_of
from staticfire.harness.html_report.recorded_run import RecordedRun, read_recorded

REPORT_FILE = "report.html"


def html_report(run: RecordedRun) -> str:
    """Return the page. Raises HistoryError, OSError."""
    return render(panels_of(run))


def report_of_folder(run: Path) -> Path:
    """Write report.html into the folder of a finished run. Raises RunFolderError, HistoryError, OSError."""
    target = run / REPORT_FILE
    write_report(target, html_report(read_recorded(run, lambda _line: None)))
    return target


def write_report(path: Path, text: str) -> None:
    """Write the page atomically. Raises OSError."""
    half_written = path.with_name(f"{path.name}.tmp")
    half_written.write_text(text, encoding="utf-8", errors="backslashreplace")
    half_written.replace(path)
