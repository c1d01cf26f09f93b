"""Options about machines: image, hosts, how to reach them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from staticfire.faults.linux.disks.loop_disk import FileSystem

IMAGE = "staticfire-node:latest"
FILE_SYSTEM: FileSystem = "ext4"
PYTHON = "python3"
_HOST = re.compile(r"(?:(?P<user>[^@:\s]+)@)?(?P<name>[^@:\s]+)(?::(?P<port>[0-9]{1,5}))?")

# Docker's form (distribution/reference): a registry, a path in small letters, a tag, a digest.
_REGISTRY = r"(?:[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*(?::[0-9]+)?/)?"
_PATH_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG, _DIGEST = r"(?::\w[\w.-]{0,127})?", r"(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?"
_IMAGE = re.compile(f"{_REGISTRY}{_PATH_PART}(?:/{_PATH_PART})*{_TAG}{_DIGEST}", re.ASCII)


class MachineOptionError(ValueError):
    """An option about machines is wrong. One sentence: the option, its value, what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """One host, written as `user@name:port`."""

    name: str
    user: str = "root"
    port: int = 22

    def __str__(self) -> str:
        return f"{self.user}@{self.name}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> SshHost:
        """Raises MachineOptionError."""
        match = _HOST.fullmatch(text.strip())
        port = int(match["port"] or 22) if match else 0
        if match is None or not 1 <= port <= 65535:
            raise MachineOptionError(
                f"--ssh-hosts holds {text!r}; allowed: user@host:port, of which user and port may be left out"
            )
        return cls(name=match["name"], user=match["user"] or "root", port=port)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """Options for `make_provider`. Each environment uses its own."""

    image: str = IMAGE
    hosts: tuple[SshHost, ...] = ()
    ssh_key: str | None = None
    known_hosts: str | None = None
    ssh_python: str = PYTHON
    name_servers: tuple[str, ...] = ()  # of an external cluster
    home: str | None = None  # of the distribution that is tested, on the machines
    file_system: FileSystem = FILE_SYSTEM  # of the disks of servers

    def words(self) -> list[str]:
        """Return the words of a command line that give these options."""
        given = {
            "--image": self.image if self.image != IMAGE else None,
            "--ssh-hosts": ",".join(map(str, self.hosts)),
            "--ssh-key": self.ssh_key,
            "--ssh-known-hosts": self.known_hosts,
            "--ssh-python": self.ssh_python if self.ssh_python != PYTHON else None,
            "--name-server": ",".join(self.name_servers),
            "--home": self.home,
            "--file-system": self.file_system if self.file_system != FILE_SYSTEM else None,
        }
        return [word for name, value in given.items() if value for word in (name, value)]


def check_image(option: str, text: str) -> None:
    """Raises MachineOptionError for an invalid name of an image."""
    if _IMAGE.fullmatch(text) is None:
        raise MachineOptionError(
            f"{option} is {text!r:.200}; allowed: such as name:tag or registry:5000/path/name, in small letters"
        )


def check_hosts(hosts: Sequence[SshHost], servers: int) -> None:
    """Raises MachineOptionError unless each server has a host of its own and clients one or more."""
    twice = next((host for number, host in enumerate(hosts) if host in hosts[:number]), None)
    if twice is not None:
        raise MachineOptionError(f"--ssh-hosts names {twice} twice; allowed: each host once")
    if len(hosts) < servers + 1:
        raise MachineOptionError(
            f"--ssh-hosts names {len(hosts)} hosts; this campaign needs {servers + 1} or more: "
            f"one for each of {servers} servers and one for clients"
        )
