"""Judges a run that is over: in memory or, for a large run, from the columns that it kept.

Both give the same verdict. Columns are judged a few queues at a time, so that a run of millions of messages does not
need memory for all of them.
"""

from __future__ import annotations

from staticfire.checkers.formats.chunks.check_files import check_files
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.verdicts.compose import RunVerdict, check_run
from staticfire.harness.recording.recorder import Recorder

FILES_PAY = 1_000_000  # messages sent and delivered, which take about 500 MB of memory


def judge(recorder: Recorder, facts: RunFacts, *, files_pay: int = FILES_PAY) -> RunVerdict:
    """Judge everything that was recorded. This closes the columns."""
    if recorder.columns is not None and recorder.acknowledged + recorder.consumed >= files_pay:
        folder = recorder.columns.finished()
        if folder is not None:
            try:
                return check_files(ColumnarHistory(folder), recorder.observations, facts)
            except (HistoryError, OSError):
                pass  # an error of the disk must not change the verdict: memory holds the whole history, too
    return check_run(recorder.ops, recorder.observations, facts)
