"""`python -m staticfire` is the command `staticfire`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line. Ctrl-C prints no traceback, even while the command line is being imported."""
    try:
        from staticfire.harness.cli import main as run_command_line

        run_command_line()
    except KeyboardInterrupt:
        if sys.stderr is not None:  # it is closed
            print("staticfire: interrupted", file=sys.stderr, flush=True)
        os._exit(
            255
        )  # EXIT_HARNESS_ERROR, and another Ctrl-C cannot interrupt the end of the interpreter


if __name__ == "__main__":
    main()
