"""A journal of everything that a harness makes on machines. Each thing is recorded before it is made.

So even after a `kill -9` of the harness, `clean` finds and removes everything. The journal is a file of JSON lines: one
for the harness itself, then one for each thing that is about to be made or has been removed. Processes have no lines of
their own: a process with `STATICFIRE_RUN=<identity>` in its environment belongs to the run.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.executor import CommandFailed, Executor
from staticfire.faults.linux.resources import Resource, removal_order, remove_resource

SUFFIX = ".inventory.jsonl"
MARK = "STATICFIRE_RUN"  # environment variable of every process of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The harness process that writes a journal."""

    pid: int
    start_ticks: str
    boot_id: str

    @classmethod
    def this_process(cls) -> Owner:
        pid = os.getpid()
        return cls(pid=pid, start_ticks=_start_ticks(pid) or "", boot_id=_boot_id())

    @property
    def is_alive(self) -> bool:
        return self.boot_id == _boot_id() and _start_ticks(self.pid) == self.start_ticks


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start_ticks(pid: int) -> str | None:
    """Return field 22 of /proc/PID/stat (proc(5)), which with the pid identifies a process; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = fields.rpartition(")")[2].split()
    return None if state == "Z" else rest[18]


class Inventory:
    """The open journal of this harness."""

    def __init__(self, path: Path) -> None:
        """Make the journal. Raises FileExistsError if it exists, and other kinds of OSError."""
        self.path = path
        self.identity = path.name.removesuffix(SUFFIX)
        self._made: dict[tuple[str, str, str, tuple[str, ...]], Resource] = {}
        owner = Owner.this_process()
        begun = path.with_name(f"{self.identity}.begun")
        self._file = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._write({"pid": owner.pid, "start_ticks": owner.start_ticks, "boot_id": owner.boot_id})
        try:
            os.link(begun, path)  # so a reader always finds a complete first line
        finally:
            begun.unlink()

    @classmethod
    def begin(cls, folder: Path) -> Inventory:
        """Make a new journal in the folder. Its identity has six characters, which are valid in names of resources.

        Raises FaultError for a folder that cannot be written, or to which other users can write.
        """
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            _check_folder(folder)
            return cls(folder / f"{secrets.token_hex(3)}{SUFFIX}")
        except OSError as error:
            raise FaultError(
                f"the state folder {folder} cannot be written: {error.strerror}; "
                "allowed: a folder of your own, see $STATICFIRE_STATE"
            ) from error

    @property
    def mark(self) -> dict[str, str]:
        """The environment variable by which the processes of the run are found."""
        return {MARK: self.identity}

    @property
    def made(self) -> list[Resource]:
        """The resources that may exist now, oldest first."""
        return list(self._made.values())

    def will_make_marked_processes(self, host: str = "") -> Resource:
        """Record that processes with the mark are about to be started on a host."""
        name = f"{MARK}={self.identity}"
        resource = Resource(kind="marked processes", name=name, host=host)
        self.will_make(resource)
        return resource

    def will_make(self, resource: Resource) -> None:
        if resource.key not in self._made:
            self._write({"will_make": resource.to_json()})
            self._made[resource.key] = resource

    def is_gone(self, resource: Resource) -> None:
        """Record that the resource no longer exists."""
        if self._made.pop(resource.key, None) is not None:
            self._write({"gone": resource.to_json()})

    async def remove(self, resource: Resource, executor: Executor) -> bool:
        """Remove the resource; return whether it existed. After an error it stays in the journal.

        Raises CommandFailed, CommandTimedOut, FaultError.
        """
        removed = await remove_resource(resource, executor)
        self.is_gone(resource)
        return removed

    def close(self) -> None:
        """Close the journal, and remove its file unless some resource may still exist."""
        os.close(self._file)
        if not self._made:
            self.path.unlink()

    def _write(self, line: dict[str, object]) -> None:
        # one write, so that no reader sees part of a line
        os.write(self._file, json.dumps(line).encode() + b"\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The journal of another process."""

    path: Path
    owner: Owner
    left: tuple[Resource, ...]  # not removed, oldest first


def read_journal(path: Path) -> Journal:
    """Read a journal. A torn last line is ignored: the resource that it announced was not made.

    Raises FaultError for a file that is no journal, FileNotFoundError if its run has ended meanwhile.
    """
    left: dict[tuple[str, str, str, tuple[str, ...]], Resource] = {}
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        header = json.loads(lines[0])
        owner = Owner(
            pid=header["pid"], start_ticks=header["start_ticks"], boot_id=header["boot_id"]
        )
        for line in map(json.loads, lines[1:]):
            resource = Resource.from_json(line.get("will_make") or line["gone"])
            if "gone" in line:
                left.pop(resource.key, None)
            else:
                left[resource.key] = resource
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FaultError(f"{path} is no inventory: {type(error).__name__}: {error}") from error
    return Journal(path=path, owner=owner, left=tuple(left.values()))


def journals(folder: Path) -> list[Path]:
    """Return the journals in a state folder, which need not exist. Raises FaultError if other users can write to it."""
    if folder.exists():
        _check_folder(folder)
        if not folder.is_dir():
            raise FaultError(f"{folder} is no folder; allowed: a folder of your own")
    return sorted(folder.glob(f"*{SUFFIX}"))


def _check_folder(folder: Path) -> None:
    """Raise FaultError if another user can write to the folder, since its journals decide what is removed."""
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise FaultError(f"{folder} is not ours alone to write; allowed: a folder of your own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The outcome for one resource."""

    resource: Resource
    removed: bool  # False: it no longer existed, or could not be removed
    error: str = ""  # why it could not be removed


async def clean(journal: Journal, executor_of: Callable[[str], Executor]) -> list[Removal]:
    """Remove the remaining resources in the right order, and the journal if none is left. May be repeated.

    A resource that cannot be removed does not stop the removal of others. Only the mounts and folders that contain it
    are kept, since without them it could not be found again.

    Args:
        executor_of: returns the executor of a host ("" is this machine).
    """
    removals: list[Removal] = []
    for resource in removal_order(journal.left):
        inside = [r.resource for r in removals if r.error and _lies_in(r.resource, resource)]
        if inside:
            kept = Removal(resource=resource, removed=False, error=f"kept for {inside[0]}")
            removals.append(kept)
        else:
            removals.append(await _try_to_remove(resource, executor_of))
    if not any(removal.error for removal in removals):
        journal.path.unlink(missing_ok=True)
    return removals


def _lies_in(inner: Resource, outer: Resource) -> bool:
    return inner.host == outer.host and inner.name.startswith(f"{outer.name}/")


async def _try_to_remove(resource: Resource, executor_of: Callable[[str], Executor]) -> Removal:
    try:
        removed = await remove_resource(resource, executor_of(resource.host))
    except CommandFailed as error:  # its text would also have the whole script
        return Removal(resource=resource, removed=False, error=error.stderr or str(error))
    except FaultError as error:
        return Removal(resource=resource, removed=False, error=str(error))
    return Removal(resource=resource, removed=removed)
