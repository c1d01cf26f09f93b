"""Checks that `--client COMMAND` can be started on this machine."""

from __future__ import annotations

import shutil

from staticfire.harness.cli.status import BadInput
from staticfire.harness.clients.client_command import ALLOWED, split_command


def check_command(client: str) -> tuple[str, ...]:
    """Return the program and its arguments. Raises BadInput."""
    try:
        words = split_command(client)
    except ValueError as error:
        raise BadInput(f"--client is {client!r:.80}: {error}; allowed: {ALLOWED}") from None
    if shutil.which(words[0]) is None:
        raise BadInput(
            f"--client {client!r} cannot be started: there is no program {words[0]}; allowed: {ALLOWED}"
        )
    return words
