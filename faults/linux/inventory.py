"""A journal of everything that a harness makes on machines, each written down before it is made.

So `clean` removes, after a `kill -9` of the harness, exactly what is in there. The journal is a file of JSON lines:
one for the harness itself, then one for each thing that is about to be made or has been removed. A process needs no
line of its own: whatever has `STATICFIRE_RUN=<identity>` in its environment belongs to the run.
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
MARK = "STATICFIRE_RUN"  # variable in the environment of every process of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The harness process that keeps a journal."""

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
    """Field 22 of /proc/PID/stat (proc(5)): with the pid it names a process for good. None if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = fields.rpartition(")")[2].split()
    return None if state == "Z" else rest[18]


class Inventory:
    """The open journal of this harness."""

    def __init__(self, path: Path) -> None:
        """Raises OSError: FileExistsError if there is such a journal."""
        self.path = path
        self.identity = path.name.removesuffix(SUFFIX)
        self._made: dict[tuple[str, str, str, tuple[str, ...]], Resource] = {}
        owner = Owner.this_process()
        begun = path.with_name(f"{self.identity}.begun")
        self._file = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._write({"pid": owner.pid, "start_ticks": owner.start_ticks, "boot_id": owner.boot_id})
        try:
            os.link(begun, path)  # who reads it always finds an owner
        finally:
            begun.unlink()

    @classmethod
    def begin(cls, folder: Path) -> Inventory:
        """A new journal in the folder, under an identity of six characters that names may hold.

        Raises FaultError for a folder that cannot be written, or that others can write to.
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
        """What every process of the run must have in its environment, so that it is found again."""
        return {MARK: self.identity}

    @property
    def made(self) -> list[Resource]:
        """What may be there now, oldest first."""
        return list(self._made.values())

    def will_make_marked_processes(self, host: str = "") -> Resource:
        """Write down that processes with the mark are about to be started on a host."""
        name = f"{MARK}={self.identity}"
        resource = Resource(kind="marked processes", name=name, host=host)
        self.will_make(resource)
        return resource

    def will_make(self, resource: Resource) -> None:
        if resource.key not in self._made:
            self._write({"will_make": resource.to_json()})
            self._made[resource.key] = resource

    def is_gone(self, resource: Resource) -> None:
        """Write down that it is not there any more."""
        if self._made.pop(resource.key, None) is not None:
            self._write({"gone": resource.to_json()})

    async def remove(self, resource: Resource, executor: Executor) -> bool:
        """Raises CommandFailed, CommandTimedOut, FaultError: then it stays written down."""
        removed = await remove_resource(resource, executor)
        self.is_gone(resource)
        return removed

    def close(self) -> None:
        """The file stays if something may still be there."""
        os.close(self._file)
        if not self._made:
            self.path.unlink()

    def _write(self, line: dict[str, object]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")  # one write: whole, or not there


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A journal as another process reads it."""

    path: Path
    owner: Owner
    left: tuple[Resource, ...]  # made and not removed, oldest first


def read_journal(path: Path) -> Journal:
    """Raises FaultError for a file that is none, FileNotFoundError when its run has ended meanwhile.

    A torn last line means that nothing was made of it.
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
    """The journals of a state folder, if it is there. Raises FaultError if others can write to it."""
    if folder.exists():
        _check_folder(folder)
        if not folder.is_dir():
            raise FaultError(f"{folder} is no folder; allowed: a folder of your own")
    return sorted(folder.glob(f"*{SUFFIX}"))


def _check_folder(folder: Path) -> None:
    """A journal says what we remove. Raises FaultError if another user can write to its folder."""
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise FaultError(f"{folder} is not ours alone to write; allowed: a folder of your own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What became of one resource."""

    resource: Resource
    removed: bool  # False: it was not there any more
    error: str = ""  # why it could not be removed


async def clean(journal: Journal, executor_of: Callable[[str], Executor]) -> list[Removal]:
    """Remove what is left, in the right order, and the journal if nothing remains. May be repeated.

    `executor_of` gives the executor of a host. What cannot be removed does not keep the rest from being removed, but
    for the mounts and folders that it lies in: without them it could not be found again.
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
    except CommandFailed as error:  # without the script
        return Removal(resource=resource, removed=False, error=error.stderr or str(error))
    except FaultError as error:
        return Removal(resource=resource, removed=False, error=str(error))
    return Removal(resource=resource, removed=removed)
