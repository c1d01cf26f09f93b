"""What every test may count on."""

from __future__ import annotations

import signal

# A job in the background of a shell ignores SIGINT, and so would every command that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
