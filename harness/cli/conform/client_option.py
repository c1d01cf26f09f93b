"""`--client` of `staticfire conform`: which library is under test, and whether it can be started."""

from __future__ import annotations

import shlex
import shutil
import sys

from harness.cli.extras import need_extra
from harness.cli.status import BadInput
from harness.conformance.clients.processes import MODULES, ProcessClients, our_command
from harness.environments.cpp_library import check_here
from harness.environments.errors import EnvironmentFailed


def client_under_test(text: str | None) -> ProcessClients | None:
    """The processes of a client; None if the user asked for none. Raises BadInput."""
    if text is None:
        return None
    if text in MODULES:
        if text == "cpp":
            _check_cpp()
        return ProcessClients(text, our_command(sys.executable, text))
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"--client is {text!r}: {error}; allowed: ours, cpp or a command") from None
    if not command:
        raise BadInput("--client is empty; allowed: ours, cpp or a command")
    if shutil.which(command[0]) is None:
        raise BadInput(
            f"--client {text!r} cannot be started: there is no program {command[0]};"
            " allowed: ours, cpp or a command"
        )
    return ProcessClients(command[0], command)


def _check_cpp() -> None:
    """Raises BadInput."""
    need_extra("cpp-client", "--client cpp")
    try:
        check_here()
    except EnvironmentFailed as error:
        raise BadInput(str(error)) from error
