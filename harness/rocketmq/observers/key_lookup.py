"""Looks up acknowledged messages after the drain: by key and id, some by time; and reads how much slaves have served.

Of large batches it looks up the first message of each range, about one of a thousand.
"""

from __future__ import annotations

import asyncio
from typing import Any

from staticfire.checkers.model.columns import UNKNOWN
from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import of_send
from staticfire.checkers.op_kinds.catalogue import SENDS
from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.checkers.op_kinds.values import SendManyValue, SendValue
from staticfire.harness.clients.names import ADMIN
from staticfire.harness.clients.port import Outcome
from staticfire.harness.environments.environment import Environment, living_replicas
from staticfire.harness.observers.probe import PROBE_PROCESS

TRIES = 5
SEARCHED_OF_QUEUE = 2  # messages whose store times are searched for
POLL_S = 2.0


def _wanted(op: Op) -> list[list[object]]:
    """Return [key, queue, queue offset, physical offset] of a send's messages; of a large batch, of each range's first.

    A client need not report the physical offset. Then it is UNKNOWN, and a look-up by id is not possible.
    """
    if op.f == SEND_MANY:
        many: SendManyValue = op.value
        first = (of_send(row) for row in many["ranges"])
        return [[one.key, many["queue"], one.queue_offset, one.physical_offset] for one in first]
    value: SendValue = op.value
    if value["queue_offset"] < 0:
        return []
    position = value.get("physical_offset", UNKNOWN)
    return [[value["key"], value["queue"], value["queue_offset"], position]]


def _lacking(wanted: list[list[Any]], answer: dict[str, Any]) -> list[list[Any]]:
    """Return the messages of a look-up that are not in their queue, or cannot be read there."""
    missing = {tuple(row[:3]) for row in answer["messages"] if not row[5]}
    missing |= {tuple(row[:3]) for row in answer.get("torn", ())}
    return [message for message in wanted if tuple(message[:3]) in missing]


def _some_positions(acknowledged: list[list[Any]]) -> list[list[Any]]:
    """Return [key, queue, queue offset] of SEARCHED_OF_QUEUE messages of each queue: the last and the middle one."""
    of_queue: dict[int, list[tuple[int, str]]] = {}
    for key, queue, offset, _ in acknowledged:
        of_queue.setdefault(queue, []).append((offset, key))
    found = []
    for queue, held in sorted(of_queue.items()):
        held.sort()
        for part in range(1, SEARCHED_OF_QUEUE + 1):
            offset, key = held[(len(held) - 1) * part // SEARCHED_OF_QUEUE]
            found.append([key, queue, offset])
    return found


def _is_cleaned_meanwhile(value: dict[str, Any]) -> bool:
    """Whether a broker may have deleted messages between the look-up and the end of the search by time.

    It had messages at the look-up and none at the search, a search ended at the first message that is left, or nothing
    is left at the answer of a search.
    """
    searched = value.get("searched")
    nothing = searched == [] and not value.get("refused")
    is_cut = any(row[6] is None and (row[5] is None or row[4] > row[2]) for row in searched or ())
    return is_cut or (nothing and any(row[5] for row in value["messages"]))


class LookUps:
    """Queries the master of each broker name, or the first remaining slave, and other replicas for missing messages."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._recorder = environment.recorder

    async def run(self) -> None:
        for name in self._environment.topology.replica_sets:
            for topic, acknowledged in self._acknowledged(name).items():
                await self._look_up(name, topic, acknowledged)
        for broker in self._environment.topology.replicas:
            if not broker.is_leader and self._counts_for_us(broker.node):
                outcome = await self._ask("messages_served", broker.node)
                served = outcome.value.get("served", 0)
                self._recorder.observe("slave_reads", node=broker.node, messages=served)

    def _counts_for_us(self, node: str) -> bool:
        """Whether the node still runs, and has served all of its messages to this run."""
        return not self._environment.is_lost(node) and not self._environment.is_external(node)

    def _acknowledged(self, broker_name: str) -> dict[str, list[list[object]]]:
        """Return the messages to look up, by topic."""
        found: dict[str, list[list[Any]]] = {self._environment.campaign.topic: []}
        for op in self._recorder.ops:
            if op.type == "ok" and op.f in SENDS and op.value["broker"] == broker_name:
                found.setdefault(op.value["topic"], []).extend(_wanted(op))
        return found

    async def _look_up(self, broker_name: str, topic: str, acknowledged: list[list[Any]]) -> None:
        living = living_replicas(self._environment, broker_name)
        wanted = acknowledged
        for node in living:
            searched = acknowledged if node == living[0] else None
            for _ in range(TRIES):
                value = self._asked(topic, broker_name, node, len(wanted))
                outcome = await self._look_up_on(value, wanted, searched)
                if not _is_cleaned_meanwhile(value):
                    break
            self._recorder.record(PROBE_PROCESS, outcome.type, "look_up", value, outcome.error)
            if node == living[0]:
                wanted = _lacking(acknowledged, value)
            if not wanted:
                break

    def _asked(self, topic: str, broker_name: str, node: str, count: int) -> dict[str, Any]:
        """Return the value of a look-up of `count` messages that has no answer yet."""
        properties = dict(self._environment.campaign.broker_properties)
        return {
            "topic": topic,
            "broker": broker_name,
            "node": node,
            "indexed": properties.get("messageIndexEnable", "true").lower() == "true",
            "messages": [],
            "asked": count,
        }

    async def _look_up_on(
        self, value: dict[str, Any], wanted: list[list[Any]], searched: list[list[Any]] | None
    ) -> Outcome:
        """Look messages up on a node, and search for the times of some of `searched`; put the answers into `value`."""
        outcome = await self._ask("look_up", value["node"], {**value, "messages": wanted})
        value.update(outcome.value)
        if searched is not None and outcome.type == "ok":
            request = {"topic": value["topic"], "places": _some_positions(searched)}
            found = await self._ask("search_times", value["node"], request)
            value.update(found.value if found.type == "ok" else {"search_error": found.error})
        return outcome

    async def _ask(self, f: str, node: str, value: dict[str, Any] | None = None) -> Outcome:
        address = self._environment.server_address(node)
        for tried in range(TRIES):
            if tried:
                await asyncio.sleep(POLL_S)
            outcome = await self._environment.request(
                ADMIN, {**(value or {}), "f": f, "address": address}
            )
            if outcome.type == "ok" and not outcome.value.get("refused"):
                break
        return outcome
