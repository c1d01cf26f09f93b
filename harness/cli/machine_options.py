"""The options about machines, shared by the commands that run campaigns."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from staticfire.faults.linux.disks.loop_disk import FILE_SYSTEMS, FileSystem
from staticfire.harness.cli.status import BadInput, turn_errors
from staticfire.harness.machines.options import (
    FILE_SYSTEM,
    IMAGE,
    PYTHON,
    MachineOptionError,
    MachineOptions,
    SshHost,
    check_image,
)

Command = Callable[..., object]

_OPTIONS = (
    click.option(
        "--image",
        default=IMAGE,
        show_default=True,
        help="With --environment docker: image of the nodes.",
    ),
    click.option(
        "--ssh-hosts",
        metavar="HOST[,HOST...]",
        help="With --environment ssh: user@host:port, one for each server and at least one for clients.",
    ),
    click.option(
        "--ssh-key", metavar="FILE", help="Private key. Default: the agent and the usual files."
    ),
    click.option(
        "--ssh-known-hosts",
        metavar="FILE",
        help="Known-hosts file to use in addition to the user's own.",
    ),
    click.option(
        "--ssh-python", default=PYTHON, show_default=True, help="Python interpreter on the hosts."
    ),
    click.option(
        "--name-server",
        metavar="HOST:PORT[,HOST:PORT...]",
        help="With --environment address: the name servers of the running cluster.",
    ),
    click.option(
        "--home",
        metavar="DIR",
        help="With --target apache: folder of the distribution on the servers' machines.",
    ),
    click.option(
        "--file-system",
        type=click.Choice(FILE_SYSTEMS),
        default=FILE_SYSTEM,
        show_default=True,
        help="With --environment namespaces, docker or ssh: the servers' file system.",
    ),
)


# The arguments of these options, with their defaults.
MACHINE_DEFAULTS: dict[str, object] = {
    "image": IMAGE,
    "ssh_hosts": None,
    "ssh_key": None,
    "ssh_known_hosts": None,
    "ssh_python": PYTHON,
    "name_server": None,
    "home": None,
    "file_system": FILE_SYSTEM,
}


def _check_file(option: str, path: str | None) -> None:
    """Raises BadInput."""
    if path is None:
        return
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise BadInput(
            f"{option} is {path!r}, which cannot be read: {error.strerror}; allowed: a file"
        ) from error


def machine_options(command: Command) -> Command:
    """Give the command an argument `provider`."""

    @wraps(command)
    def with_provider(*args: Any, **given: Any) -> Any:
        provider = read_machines(**{name: given.pop(name) for name in MACHINE_DEFAULTS})
        return command(*args, provider=provider, **given)

    wrapped: Command = with_provider
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def read_machines(
    *,
    image: str,
    ssh_hosts: str | None,
    ssh_key: str | None,
    ssh_known_hosts: str | None,
    ssh_python: str,
    home: str | None,
    name_server: str | None,
    file_system: FileSystem,
) -> MachineOptions:
    """Read the machines that these options name. Raises BadInput."""
    with turn_errors(MachineOptionError, into=BadInput):
        check_image("--image", image)
        hosts = tuple(map(SshHost.parse, ssh_hosts.split(","))) if ssh_hosts else ()
    _check_file("--ssh-key", ssh_key)
    _check_file("--ssh-known-hosts", ssh_known_hosts)
    return MachineOptions(
        image=image,
        hosts=hosts,
        ssh_key=ssh_key,
        known_hosts=ssh_known_hosts,
        ssh_python=ssh_python,
        home=home,
        name_servers=_name_servers(name_server),
        file_system=file_system,
    )


def _name_servers(text: str | None) -> tuple[str, ...]:
    """Raises BadInput."""
    if text is None:
        return ()
    # Imported here: it imports the system under test, which takes half a second.
    from staticfire.faults.proxy.rocketmq.addresses import Address, AddressError

    try:
        return tuple(str(Address.parse(part.strip())) for part in text.replace(";", ",").split(","))
    except AddressError as error:
        raise BadInput(f"--name-server: {error}") from error
