"""The kinds of resource that faults make on a machine, and how each is removed: by name, and only if it exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.executor import CommandFailed, Executor

REMOVAL_TIMEOUT_S = 60.0

# Each script prints "removed" if the resource existed. $1 is the name; the details of KINDS follow in their order.

# Kills the process only if this pid is still the one that we started: same boot, same start time. Ignores a zombie.
_PROCESS = """
same() {
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  set -- "$1" "$2" ${stat##*) }
  [ "$3" != Z ] && [ "${22}" = "$2" ]
}
[ "$(cat /proc/sys/kernel/random/boot_id)" = "$3" ] || exit 0
same "$1" "$2" || exit 0
kill -KILL "$1"
for round in $(seq 200); do same "$1" "$2" || { echo removed; exit 0; }; sleep 0.05; done
echo "process $1 does not die" >&2; exit 1
"""

# Kills every process with this variable in its environment, also one that is being started.
_MARKED_PROCESSES = """
for round in $(seq 200); do
  pids=$(grep -lzsxF -e "$1" /proc/[0-9]*/environ | cut -d/ -f3)
  [ -n "$pids" ] || { echo $found; exit 0; }
  found=removed; kill -KILL $pids 2>/dev/null; sleep 0.05
done
echo "these do not die: $pids" >&2; exit 1
"""

# Containers of a Docker engine. The name is a label, such as staticfire.run=3fa2b1.
_CONTAINERS = """
ids=$(docker ps --all --quiet --filter "label=$1") || exit 1
[ -n "$ids" ] || exit 0
docker rm --force --volumes $ids >/dev/null && echo removed
"""
_CONTAINER_NETWORKS = """
ids=$(docker network ls --quiet --filter "label=$1") || exit 1
[ -n "$ids" ] || exit 0
docker network rm $ids >/dev/null && echo removed
"""

_QDISC = """
tc qdisc show dev "$1" 2>/dev/null | grep -q "^qdisc [a-z]* $2 root" || exit 0
tc qdisc del dev "$1" root && echo removed
"""

_NFT_TABLE = """
nft list table $1 >/dev/null 2>&1 || exit 0
nft delete table $1 && echo removed
"""

# Moves the processes back to their former cgroup ($2). A dying process cannot be moved, and keeps the cgroup busy until
# its last thread has ended.
_CGROUP = """
for round in $(seq 200); do
  [ -d "$1" ] || exit 0
  for pid in $(cat "$1/cgroup.procs"); do echo "$pid" > "$2/cgroup.procs"; done 2>/dev/null
  rmdir "$1" 2>/dev/null && { echo removed; exit 0; }
  sleep 0.05
done
rmdir "$1" && echo removed
"""

_MOUNT = """
mountpoint -q "$1" || exit 0
for round in 1 2 3 4 5; do umount "$1" 2>/dev/null && { echo removed; exit 0; }; sleep 0.1; done
umount -l "$1" && echo removed
"""

_LOOP = """
found() {
  losetup --list --noheadings --output NAME,BACK-FILE | while read -r device file; do
    case "$file" in "$1"|"$1 (deleted)") echo "$device";; esac
  done
}
devices=$(found "$1")
[ -n "$devices" ] || exit 0
for device in $devices; do losetup --detach "$device" || exit 1; done
for round in $(seq 100); do [ -n "$(found "$1")" ] || { echo removed; exit 0; }; sleep 0.05; done
echo "$devices is still open elsewhere" >&2; exit 1
"""

_LINK = """
ip link show dev "$1" >/dev/null 2>&1 || exit 0
ip link delete dev "$1" && echo removed
"""

_NAMESPACE = """
[ -e "/run/netns/$1" ] || exit 0
ip netns delete "$1" && echo removed
"""

# Retries, since on a remote machine an abandoned command may still be writing there.
_FOLDER = """
[ -e "$1" ] || exit 0
for pause in 0.2 1 3; do
  rm -rf --one-file-system -- "$1" 2> /dev/null && { echo removed; exit 0; }
  sleep $pause
done
rm -rf --one-file-system -- "$1" && echo removed
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    rank: int  # lower ranks are removed first; within a rank, the newest first
    script: str
    details: tuple[str, ...] = ()  # arguments of the script after the name


KINDS: dict[str, Kind] = {
    "process": Kind(rank=0, script=_PROCESS, details=("start_ticks", "boot_id")),
    "marked processes": Kind(rank=0, script=_MARKED_PROCESSES),
    "containers": Kind(rank=0, script=_CONTAINERS),
    "qdisc": Kind(rank=1, script=_QDISC, details=("handle",)),
    "nft table": Kind(rank=1, script=_NFT_TABLE),
    "cgroup": Kind(rank=2, script=_CGROUP, details=("home",)),
    "mount": Kind(rank=3, script=_MOUNT),
    "loop device": Kind(rank=3, script=_LOOP),
    "link": Kind(rank=4, script=_LINK),
    "network namespace": Kind(rank=4, script=_NAMESPACE),
    "container networks": Kind(rank=4, script=_CONTAINER_NETWORKS),
    "folder": Kind(rank=5, script=_FOLDER),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource that was made. A loop device has its backing file as name, since its number is known too late."""

    kind: str  # of KINDS
    name: str
    host: str = ""
    prefix: tuple[str, ...] = ()
    details: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str, tuple[str, ...]]:
        return (self.host, self.kind, self.name, self.prefix)

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        return f"{self.kind} {self.name}{where}"

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "name": self.name,
            "host": self.host,
            "prefix": list(self.prefix),
            "details": self.details,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Resource:
        """Read a resource. Raises FaultError for an unknown kind, KeyError or TypeError for damaged data."""
        if value["kind"] not in KINDS:
            raise FaultError(
                f"unknown kind of resource {value['kind']!r}; there are: {', '.join(KINDS)}"
            )
        return cls(
            kind=value["kind"],
            name=value["name"],
            host=value["host"],
            prefix=tuple(value["prefix"]),
            details=dict(value["details"]),
        )


def removal_argv(resource: Resource) -> list[str]:
    """Return the command that removes the resource. Raises FaultError for a folder that must never be removed."""
    if resource.kind == "folder":
        _check_folder(resource.name)
    kind = KINDS[resource.kind]
    details = [resource.details[name] for name in kind.details]
    return [*resource.prefix, "sh", "-c", kind.script, "sh", resource.name, *details]


def _check_folder(name: str) -> None:
    path = PurePosixPath(name)
    if not path.is_absolute() or len(path.parts) < 3 or ".." in path.parts:
        raise FaultError(
            f"folder {name!r} is not removed; allowed: an absolute path, two names deep or more"
        )


async def remove_resource(resource: Resource, executor: Executor) -> bool:
    """Remove the resource if it exists; return whether it did. Raises CommandFailed, CommandTimedOut, FaultError."""
    try:
        output = await executor.run(removal_argv(resource), timeout_s=REMOVAL_TIMEOUT_S)
    except CommandFailed as error:
        if resource.prefix and _is_missing_namespace(error):
            return False  # it was removed with its namespace
        raise
    return output.strip() == b"removed"


def _is_missing_namespace(error: CommandFailed) -> bool:
    return error.stderr.startswith("nsenter: cannot open")


def removal_order(made: Sequence[Resource]) -> list[Resource]:
    """Return the resources in the order in which they must be removed; `made` is in the order of making."""
    numbered = sorted(enumerate(made), key=lambda pair: (KINDS[pair[1].kind].rank, -pair[0]))
    return [resource for _, resource in numbered]
