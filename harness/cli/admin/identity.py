"""The identity of an administrator: keys (as in mqadmin's conf/tools.yml) and TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from staticfire.harness.cli.status import BadInput, turn_errors
from staticfire.system_under_test.acl.signature import Credentials
from staticfire.system_under_test.configuration.config import ConfigError
from staticfire.system_under_test.configuration.real_tls import RealTls, read_tls_options
from staticfire.system_under_test.runtime.env import TlsError, TlsMode

IDENTITY = (
    click.option(
        "--access-key",
        "own_access_key",
        metavar="KEY",
        help="Access key, for brokers with access control.",
    ),
    click.option(
        "--secret-key", "own_secret_key", metavar="SECRET", help="Secret key for --access-key."
    ),
    click.option(
        "--credentials",
        "own_credentials",
        metavar="FILE",
        help="File with both keys, in the format of mqadmin's conf/tools.yml.",
    ),
    click.option("--use-tls", is_flag=True, help="Use TLS with all nodes."),
    click.option(
        "--tls-config", metavar="FILE", help="File of tls.client.* properties. Implies --use-tls."
    ),
)


def take_credentials(values: dict[str, Any]) -> Credentials | None:
    """Removes its options from `values`. Raises BadInput."""
    access_key, secret_key, path = (
        values.pop(name) for name in ("own_access_key", "own_secret_key", "own_credentials")
    )
    if path is not None:
        if access_key is not None or secret_key is not None:
            raise BadInput("keys and a file with keys are given; allowed: either")
        return _read_credentials(path)
    if access_key is None and secret_key is None:
        return None
    if not access_key or not secret_key:
        raise BadInput("only one of --access-key and --secret-key is given; allowed: both or none")
    for key in (access_key, secret_key):
        if not key.isprintable():
            raise BadInput(f"{key!r} is no key; allowed: printable text")
    return Credentials(access_key=access_key, secret_key=secret_key)


def _read_credentials(path: str) -> Credentials:
    try:
        return Credentials.from_text(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"the keys in {path!r} cannot be used: {reason}") from error


def take_tls(values: dict[str, Any]) -> RealTls | None:
    """Removes its options from `values`. Raises BadInput."""
    use_tls, path = values.pop("use_tls"), values.pop("tls_config")
    if not use_tls and path is None:
        return None
    with turn_errors(TlsError, ConfigError, ValueError, into=BadInput):
        tls = RealTls(read_tls_options(path, mode=TlsMode.DISABLED, client_enabled=True))
        tls.check()
    return tls
