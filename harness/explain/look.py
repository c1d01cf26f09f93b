"""Shows one node of a simulated run at a virtual time: its state, its memory, its disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from staticfire.checkers.guarantees.verdict import seconds
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.environments.simulated.environment import SimulatedNode
from staticfire.harness.runs.simulated_runner import LiveRun, run_simulated
from staticfire.harness.systems.registry import system_of
from staticfire.harness.systems.server_memory import ServerMemory

FILES = "files"


class Looked(Exception):
    """Ends a run once the node's state has been read."""

    def __init__(self, seen: dict[str, Any]) -> None:
        super().__init__("looked at")
        self.seen = seen


class EndedBefore(ValueError):
    """The run ends before the requested time."""


class NothingThere(ValueError):
    """The node lacks the requested part at that time; the text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A node's state: `at_ns`, `node`, `state`, `starts` (processes so far), and a list or a table for each part."""

    seen: dict[str, Any]
    parts: tuple[str, ...]  # parts that a node may have

    def only(self, what: str | None) -> dict[str, Any]:
        """Return the state with one of the parts or, for None, with all of them."""
        return {
            name: value
            for name, value in self.seen.items()
            if what in (None, name) or name not in self.parts
        }

    def lines(self, what: str | None) -> list[str]:
        """Return the text of one part, or of all but the files. Raises NothingThere."""
        seen = self.seen
        head = f"node      {seen['node']} at {seconds(seen['at_ns'])}: {seen['state']}, start {seen['starts']}"
        if what is None:
            shown = (name for name in self.parts if name != FILES)
            return [head, *(line for name in shown for line in self._part(name))]
        if what not in seen:
            there = ", ".join(name for name in self.parts if name in seen)
            raise NothingThere(
                f"{seen['node']} has no {what} at {seconds(seen['at_ns'])}: it is {seen['state']}; there is: {there}"
            )
        return [head, *self._part(what)]

    def _part(self, name: str) -> Iterator[str]:
        found = self.seen.get(name, [])
        for row in [found] if isinstance(found, dict) else found:
            yield f"{name:<9} " + "  ".join(f"{key} {_shown(value)}" for key, value in row.items())


def parts_of(campaign: Campaign) -> tuple[str, ...]:
    """Return the names of the parts that a node of this campaign may have."""
    memory = system_of(campaign).memory
    return (*(() if memory is None else memory.parts), FILES)


def look_at(campaign: Campaign, at_ns: int, node: str) -> Look:
    """Repeat a simulated run up to a virtual time and read a node's state.

    Raises EndedBefore, and the errors of `run_simulated`.
    """
    look = _look(node, at_ns, system_of(campaign).memory)
    try:
        result = run_simulated(campaign, begun=lambda live: live.at(at_ns, look))
    except Looked as looked:
        return Look(seen=looked.seen, parts=parts_of(campaign))
    raise EndedBefore(seconds(int(result.run_s * 1e9)))


def _look(node: str, at_ns: int, memory: ServerMemory | None) -> Any:
    def look(live: LiveRun) -> None:
        live.world.scheduler.fail(Looked(_seen(live.environment.nodes[node], at_ns, memory)))

    return look


def _seen(node: SimulatedNode, at_ns: int, memory: ServerMemory | None) -> dict[str, object]:
    process = node.running
    seen: dict[str, object] = {
        "at_ns": at_ns,
        "node": node.name,
        "state": _state(node),
        "starts": len(node.incarnations),
    }
    if process is not None and memory is not None:
        seen |= memory.read(process)
    return {**seen, FILES: list(_files(node))}


def _state(node: SimulatedNode) -> str:
    if node.lost:
        return "lost with its disk"
    if not node.host.powered:
        return "without power"
    if node.running is None:
        return "down"
    return "frozen" if node.running.queue.paused else "up"


def _files(node: SimulatedNode) -> Iterator[dict[str, object]]:
    """Yield each file: its path, its size for a process, and whether all of it would survive a power cut."""
    disk = node.host.disk
    for path, content in sorted(disk.snapshot().items()):
        yield {
            "path": path,
            "bytes": len(content),
            "durable": disk.is_durable(path, 0, len(content)),
        }


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={one}" for key, one in value.items()) or "none"
    return str(value)
