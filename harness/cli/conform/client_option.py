"""`--client` of `staticfire conform`: the library under test, and a check that it can be started."""

from __future__ import annotations

import sys

from staticfire.harness.cli.client_command import check_command
from staticfire.harness.cli.extras import need_extra
from staticfire.harness.cli.status import BadInput, turn_errors
from staticfire.harness.conformance.clients.processes import MODULES, ProcessClients, our_clients
from staticfire.harness.machines.cpp_library import check_here
from staticfire.harness.machines.errors import EnvironmentFailed


def client_under_test(text: str | None) -> ProcessClients | None:
    """Return the processes of the client under test; None without --client. Raises BadInput."""
    if text is None:
        return None
    if text in MODULES:
        if text == "cpp":
            _check_cpp()
        return our_clients(sys.executable, text)
    command = check_command(text)
    return ProcessClients(command[0], command)


def _check_cpp() -> None:
    """Raises BadInput."""
    need_extra("cpp-client", "--client cpp")
    with turn_errors(EnvironmentFailed, into=BadInput):
        check_here()
