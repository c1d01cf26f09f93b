"""One node of a simulated run as it was at a virtual time: its state, its memory, its disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from staticfire.checkers.guarantees.verdict import seconds
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.environments.simulated.environment import SimulatedNode
from staticfire.harness.rocketmq.observers.node_inside import inside_of
from staticfire.harness.runs.simulated_runner import LiveRun, run_simulated

WHAT = ("store", "queues", "offsets", "routes", "files")


class Looked(Exception):
    """The run was looked at, and need not go on."""

    def __init__(self, seen: dict[str, Any]) -> None:
        super().__init__("looked at")
        self.seen = seen


class EndedBefore(ValueError):
    """The run ends before the moment that was asked for."""


class NothingThere(ValueError):
    """The node has no such thing at that moment. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen: `at_ns`, `node`, `state`, `starts` (processes so far), and one list or table for each of WHAT."""

    seen: dict[str, Any]

    def lines(self, what: str | None) -> list[str]:
        """Text; of one part, or of everything but the files. Raises NothingThere."""
        seen = self.seen
        head = f"node      {seen['node']} at {seconds(seen['at_ns'])}: {seen['state']}, start {seen['starts']}"
        if what is None:
            return [head, *(line for name in WHAT[:-1] for line in self._part(name))]
        if what not in seen:
            there = ", ".join(name for name in WHAT if name in seen)
            raise NothingThere(
                f"{seen['node']} has no {what} at {seconds(seen['at_ns'])}: it is {seen['state']}; there is: {there}"
            )
        return [head, *self._part(what)]

    def _part(self, name: str) -> Iterator[str]:
        found = self.seen.get(name, [])
        for row in [found] if isinstance(found, dict) else found:
            yield f"{name:<9} " + "  ".join(f"{key} {_shown(value)}" for key, value in row.items())


def look_at(campaign: Campaign, at_ns: int, node: str) -> Look:
    """Repeat a simulated run up to a virtual time and look into a node.

    Raises EndedBefore, and what runs raise.
    """
    try:
        result = run_simulated(campaign, begun=lambda live: live.at(at_ns, _look(node, at_ns)))
    except Looked as looked:
        return Look(seen=looked.seen)
    raise EndedBefore(seconds(int(result.run_s * 1e9)))


def _look(node: str, at_ns: int) -> Any:
    def look(live: LiveRun) -> None:
        live.world.scheduler.fail(Looked(_seen(live.environment.nodes[node], at_ns)))

    return look


def _seen(node: SimulatedNode, at_ns: int) -> dict[str, object]:
    process = node.running
    seen: dict[str, object] = {
        "at_ns": at_ns,
        "node": node.name,
        "state": _state(node),
        "starts": len(node.incarnations),
    }
    if process is not None:
        seen |= inside_of(process)
    return {**seen, "files": list(_files(node))}


def _state(node: SimulatedNode) -> str:
    if node.lost:
        return "lost with its disk"
    if not node.host.powered:
        return "without power"
    if node.running is None:
        return "down"
    return "frozen" if node.running.queue.paused else "up"


def _files(node: SimulatedNode) -> Iterator[dict[str, object]]:
    """Size as a process sees it, and how many of its bytes would survive a power cut as they are, from the start."""
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
