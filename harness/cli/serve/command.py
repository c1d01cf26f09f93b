"""`staticfire serve`: shows a folder of runs in a browser."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from typing import TYPE_CHECKING

import click

from staticfire.harness.cli.extras import need_extra
from staticfire.harness.cli.status import EXIT_VALID, BadInput
from staticfire.harness.truncated_repr import truncated_repr

if TYPE_CHECKING:
    import socket

PORT = 8040
TOKEN_MIN = 16  # characters


@click.command(short_help="Show runs in a browser.")
@click.argument("runs", type=click.Path(path_type=Path), default=Path("runs"))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on. 0: any free port.",
)
@click.option(
    "--token",
    envvar="STATICFIRE_TOKEN",
    metavar="TEXT",
    help=f"Secret that clients must send, {TOKEN_MIN} characters or more. Required unless --host is a loopback "
    "address. Prefer STATICFIRE_TOKEN: other users of the machine can see command lines.",
)
def serve(runs: Path, host: str, port: int, token: str | None) -> int:
    """Show the runs in folder RUNS (default: runs) in a browser, until Ctrl-C.

    The pages are a table of runs, a comparison of two runs, runs under way, hunts, planted bugs, conformance reports,
    and downloads. The command reads nothing outside RUNS and writes nothing. docs/serve.md describes the pages.

    \b
    Example:
      staticfire serve
      staticfire serve results --port 0

    Exit status: 0 stopped, 254 bad arguments or a port in use, 255 harness error.
    """
    need_extra("serve", "staticfire serve")
    from staticfire.harness.serve.folder import ServedFolder
    from staticfire.harness.serve.server import is_loopback, serve_runs

    if token is not None and len(token) < TOKEN_MIN:
        raise BadInput(f"--token has {len(token)} characters; allowed: {TOKEN_MIN} or more")
    if token is None and not is_loopback(host):
        raise BadInput(
            f"--host is {truncated_repr(host)}, which other machines reach; give a --token, or a loopback address"
        )
    try:
        folder = ServedFolder(runs)
    except OSError as error:
        raise BadInput(
            f"RUNS is {truncated_repr(str(runs))}; it cannot be read as a folder ({error.strerror})"
        ) from error
    with contextlib.suppress(KeyboardInterrupt), _listener(host, port) as listener:
        address = f"[{host}]" if ":" in host else host
        print(f"runs      {folder.root}")
        print(
            f"serving   http://{address}:{listener.getsockname()[1]}/  (Ctrl-C ends it)", flush=True
        )
        serve_runs(folder, listener, token)
    return EXIT_VALID


def _listener(host: str, port: int) -> socket.socket:
    from staticfire.harness.serve.server import listen

    try:
        return listen(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadInput(
                f"--port is {port}; it is in use at {host}; allowed: a free port, or 0 to have one chosen"
            ) from error
        if error.errno == errno.EACCES:
            raise BadInput(
                f"--port is {port}; this user may not listen there; allowed: 1024 and above"
            ) from error
        raise BadInput(
            f"--host is {truncated_repr(host)}; this machine cannot listen there"
        ) from error
