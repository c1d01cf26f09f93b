"""The wait of a stored message for its flush: consumers are given nothing that is not flushed.

The disk of a broker makes one fsync after the other. Before that of the log, which makes a message visible, those of
queues, checkpoint, offsets and other metadata may stand, and one of the log that had begun before. A message whose
flush came 5.2 s after the one before, at 400 ms an fsync, had 12 of other files before its own.
"""

from __future__ import annotations

from staticfire.checkers.guarantees.facts import Timings
from staticfire.checkers.guarantees.promises import NS_PER_S

FSYNCS = 20  # up to and with its own: master and slave flush at the same time


def flush_wait_ns(timings: Timings) -> int:
    """The longest time from the store of a message to its flush where no fault slows the disk; 0: not known."""
    return int(FSYNCS * timings.fsync_s * NS_PER_S)
