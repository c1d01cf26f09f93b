"""Topics and groups beside the load: administrators change them, and readers' deliveries are in the history.

The main topic does not change. The producer that no fault touches fills a side topic, and the harness's own client
reads it, so that checkers judge it like any other topic: groups must get its acknowledged messages, and none from
before the topic was made.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from staticfire.faults.model.capabilities import Evidence
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.clients.port import Outcome
from staticfire.harness.environments.environment import Environment
from staticfire.harness.workloads.side_names import CLONE, side_names
from staticfire.system_under_test.protocol.codes import RequestCode

FIRST_PROCESS = 98_000  # a side topic is one process of the history
QUEUES = 2
MESSAGES = 6  # messages sent to each broker at a time
MESSAGE_BYTES = 64
TRIES, POLL_S = 16, 0.5
FORMER_OFFSET = 1  # the offset of the former topic's group

Row = list[object]  # broker, queue, min, max and position of a reader
Scope = tuple[str, str]  # group and topic
BrokerQueue = tuple[str, int]  # broker name and queue


@dataclass(slots=True, kw_only=True)
class Reader:
    """The only member of a group. In the history a group that was deleted and made again has another name."""

    group: str
    positions: dict[BrokerQueue, int] = field(default_factory=dict)


class SideTopic:
    """A topic beside the load, on every broker that answers, and its group.

    Args:
        environment: the environment of the brokers.
        number: the fault's number, part of the names.
        index: the number of earlier side topics, which decides its process number in the history.
    """

    def __init__(self, environment: Environment, number: int, index: int) -> None:
        campaign = environment.campaign
        self.number = number
        self.topic, self.group = side_names(campaign, number)
        self._environment = environment
        self._process = FIRST_PROCESS + index
        self._sent = 0
        # first offsets of the new topic, on brokers that take part
        self._begins: dict[BrokerQueue, int] = {}
        self._first = Reader(group=self.group)
        self._again = Reader(group=f"{self.group}-again")
        # Cloned offsets: those that the source had committed.
        self._cloned: dict[BrokerQueue, int] = {}

    @property
    def _clone_group(self) -> str:
        return self.group + CLONE

    @property
    def brokers(self) -> list[str]:
        """The names of the brokers that take part."""
        return _brokers(self._begins)

    async def make_anew(self) -> Evidence:
        """Use a topic and a group, delete both and make them again; then send more. Return the results.

        A broker that leaves a request unanswered takes no further part, since its state is unknown.
        """
        masters = self._living_masters()
        made = [name for name in masters if await self._make(name)]
        await self._wait_for_route()
        former = {name: await self._send_former(name) for name in made}
        used = [
            name for name in made if former[name] and await self._commit(name, 0, FORMER_OFFSET)
        ]
        deleted = await self._delete_topic(masters)
        for name in used:
            if name in deleted:
                self._begins |= await self._remake(name)
        self._first.positions = dict(self._begins)
        await self._send()
        return {
            "topic": self.topic,
            "groups": [self._first.group, self._again.group],
            "former": sum(former[name] for name in self.brokers),
            "brokers": self.brokers,
            "bitten": bool(self.brokers),
        }

    async def clone_offsets(self) -> Evidence:
        """Let the group read, then clone its offsets to another group, which continues from them.

        In the history the two are one group: it must get each message, and none twice. The source continues once the
        clone has committed more. From then on the history has it as another group, from the begin of the topic.
        """
        made = [name for name in self._living_masters() if await self._make(name)]
        await self._wait_for_route()
        for name in made:
            self._begins |= await self._stands(name, self.group)
        await self._send()
        for reader in (self._first, self._again):
            reader.positions = dict(self._begins)
            await self._read(reader)
        cloned: dict[BrokerQueue, int] = {}
        for name in self.brokers:
            cloned |= await self._clone(name)
        consumed = [queue for queue in cloned if self._first.positions[queue] > self._begins[queue]]
        self._cloned = {queue: self._first.positions[queue] for queue in cloned}
        self._first.positions |= cloned
        await self._send()
        return {
            "topic": self.topic,
            "groups": [self._first.group, self._again.group],
            "brokers": self.brokers,
            "cloned": len(consumed),
            "bitten": bool(consumed),
        }

    async def _clone(self, name: str) -> dict[BrokerQueue, int]:
        """Clone the group's offsets on a broker, with one request each.

        Return the clone's offsets; empty after a failure.
        """
        for queue in range(QUEUES):
            if not await self._commit(name, queue, self._first.positions[name, queue], tries=1):
                return {}
        scope = {"srcGroup": self.group, "destGroup": self._clone_group, "topic": self.topic}
        request = order(RequestCode.CLONE_GROUP_OFFSET, {**scope, "offline": "true"})
        outcome = await self._ask(self._master(name), request)
        if outcome.type != "ok":
            return {}
        self._note(name, f"confirms that {self._clone_group} has the offsets of {self.group}")
        stands = await self._stands(name, self._clone_group)
        if stands:
            names = f"the clone as {self._first.group}, and the source as {self._again.group}"
            self._note(name, f"from now on the history has {names}")
        return stands

    async def go_on(self) -> None:
        """Let the group catch up, and send more. A clone also commits what it has read."""
        await self._read(self._first)
        for name, queue in self._cloned:
            offset = self._first.positions[name, queue]
            await self._commit(name, queue, offset, group=self._clone_group, tries=1)
        await self._send()

    async def drain(self) -> tuple[dict[Scope, list[Row]], bool]:
        """Let the group read the rest, and the remade group everything; return whether all brokers answered."""
        first, complete = await self._read(self._first)
        if complete and not self._again.positions:
            complete = await self._make_group_anew()
        for name in filter(self._is_served_by_master, _brokers(self._cloned)):
            await self._return_to_source(name)
        again, is_whole = await self._read(self._again)
        rows = {(self._first.group, self.topic): first, (self._again.group, self.topic): again}
        return rows, complete and is_whole

    # Administration

    def _living_masters(self) -> list[str]:
        topology, is_lost = self._environment.topology, self._environment.is_lost
        return [master.replica_set for master in topology.leaders if not is_lost(master.node)]

    async def _make(self, name: str) -> bool:
        request = {"f": "create_topic", "topic": self.topic, "queues": QUEUES}
        if not await self._until_ok(self._master(name), request):
            return False
        self._note(name, "confirms the topic")
        return await self._make_group(name)

    async def _make_group(self, name: str) -> bool:
        group = json.dumps({"groupName": self.group, "consumeEnable": True, "retryQueueNums": 1})
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        is_made = await self._order(name, code, {}, group)
        if is_made:
            self._note(name, f"confirms the group {self.group}")
        return is_made

    async def _delete_group(self, name: str) -> bool:
        ext = {"groupName": self.group, "removeOffset": "true"}
        code = RequestCode.DELETE_SUBSCRIPTIONGROUP
        is_deleted = await self._order(name, code, ext, tries=1)
        if is_deleted:
            self._note(name, f"confirms the deletion of the group {self.group} with its offsets")
        return is_deleted

    async def _delete_topic(self, masters: Sequence[str]) -> list[str]:
        """Delete the topic as mqadmin does: on all masters, then at the name servers.

        Returns the masters on which it may be made again: none while a name server may still remove it. Name servers
        remove it from the routes of all brokers, so the request goes to them only once no master has it. Each name
        server gets one request: a request that a cut delays may be carried out seconds later, and would remove the new
        topic.
        """
        ext = {"topic": self.topic}
        code = RequestCode.DELETE_TOPIC_IN_BROKER
        deleted = []
        for name in masters:
            if await self._order(name, code, ext):
                deleted.append(name)
                self._note(name, "confirms the deletion of the topic")
        if deleted != masters:
            return deleted
        for server in self._environment.topology.coordinators:
            request = order(RequestCode.DELETE_TOPIC_IN_NAMESRV, ext)
            if not await self._until_ok(server, request, tries=1):
                return []
            self._environment.recorder.observe_state("topic_removal", node=server, topic=self.topic)
        return deleted

    async def _remake(self, name: str) -> dict[BrokerQueue, int]:
        """Delete the group on a broker, and make topic and group again.

        Return the group's offsets; empty without an answer.
        """
        if await self._delete_group(name) and await self._make(name):
            return await self._stands(name, self.group)
        return {}

    async def _return_to_source(self, name: str) -> None:
        """Let the source continue on the broker, at its offset or, if that is higher, at its committed offset."""
        for queue, offset in (await self._stands(name, self.group)).items():
            if self._again.positions[queue] == self._cloned.get(queue):
                self._again.positions[queue] = max(offset, self._again.positions[queue])

    async def _make_group_anew(self) -> bool:
        """Delete the group and make it again, to begin at the first offsets; return whether that succeeded."""
        begins = dict(self._begins)
        for name in filter(self._is_served_by_master, self.brokers):
            for queue in range(QUEUES):
                if not await self._commit(name, queue, self._first.positions[name, queue]):
                    return False
            if not (await self._delete_group(name) and await self._make_group(name)):
                return False
            if not (stands := await self._stands(name, self.group)):
                return False
            begins |= stands
        # A slave whose master is lost never got the deletion, so it is read from the master's first offsets.
        self._again.positions = begins
        for name in self.brokers:
            self._note(name, f"from now on the history has {self.group} as {self._again.group}")
        return True

    async def _stands(self, name: str, group: str) -> dict[BrokerQueue, int]:
        """Return a group's offsets on a broker, or else the begin of a queue; empty without an answer."""
        outcome = await self._queue_state(name, group)
        stands = {(name, queue): at for queue, _, _, at in outcome.value.get("queues", [])}
        for (_, queue), at in stands.items():
            self._note(
                name,
                f"has {group} at offset {at}, or no offset and a queue that begins there",
                queue,
            )
        return stands

    async def _commit(
        self, name: str, queue: int, offset: int, *, group: str = "", tries: int = TRIES
    ) -> bool:
        scope = {"consumerGroup": group or self.group, "topic": self.topic}
        where = {**scope, "queueId": str(queue)}
        ext = {**where, "commitOffset": str(offset)}
        request = order(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
        is_committed = await self._until_ok(self._master(name), request, tries=tries)
        if is_committed:
            self._note(name, f"confirms offset {offset} for {group or self.group}", queue)
        return is_committed

    async def _order(
        self,
        name: str,
        code: RequestCode,
        ext: dict[str, str],
        body: str = "",
        *,
        tries: int = TRIES,
    ) -> bool:
        return await self._until_ok(self._master(name), order(code, ext, body), tries=tries)

    async def _until_ok(self, node: str, request: dict[str, object], *, tries: int = TRIES) -> bool:
        for tried in range(tries):
            if tried:
                await asyncio.sleep(POLL_S)
            outcome = await self._ask(node, request)
            if outcome.type == "ok":
                return True
        return False

    def _note(self, name: str, step: str, queue: int | None = None) -> None:
        """Observe what a broker did or answered, for explanations; without a queue it concerns the whole topic."""
        self._environment.recorder.observe_state(
            "administration",
            node=self._living(name),
            broker_name=name,
            topic=self.topic,
            queue=queue,
            step=step,
        )

    async def _ask(self, node: str, request: dict[str, object]) -> Outcome:
        address = self._environment.server_address(node)
        return await self._environment.request(ADMIN, {**request, "address": address})

    def _master(self, name: str) -> str:
        return self._environment.topology.replicas_of(name)[0].node

    def _living(self, name: str) -> str:
        """Return the master, or the first slave if the master is lost."""
        environment = self._environment
        replicas = [replica.node for replica in environment.topology.replicas_of(name)]
        return next((node for node in replicas if not environment.is_lost(node)), replicas[0])

    def _is_served_by_master(self, name: str) -> bool:
        return self._living(name) == self._master(name)

    # Messages

    async def _wait_for_route(self) -> None:
        """Wait for the route, since a producer without a route checks again only 30 s later."""
        for _ in range(TRIES):
            for server in self._environment.topology.coordinators:
                outcome = await self._ask(server, {"f": "route", "topic": self.topic})
                if outcome.value.get("brokers"):
                    return
            await asyncio.sleep(POLL_S)

    async def _send_former(self, name: str) -> int:
        """Send messages, outside the history, that are deleted with the topic; return the number stored, or 0."""
        stored = 0
        for number in range(MESSAGES):
            outcome = await self._send_one(self._message(name, number, "former"))
            is_stored = outcome.type == "ok" or "status" in outcome.value
            if outcome.type == "info" and not is_stored:
                return 0
            stored += is_stored
        return stored

    async def _send(self) -> None:
        """Send to each of the brokers, with ops in the history."""
        record = self._environment.recorder.record
        for name in self.brokers:
            for number in range(MESSAGES):
                value = self._message(name, number, "side")
                record(self._process, "invoke", "send", value, node=PROBE)
                outcome = await self._send_one(value)
                done = {**value, **outcome.value}
                record(self._process, outcome.type, "send", done, outcome.error, node=PROBE)

    def _message(self, name: str, number: int, kind: str) -> dict[str, object]:
        self._sent += 1
        return {
            "topic": self.topic,
            "key": f"{kind}-{self.number}-{self._sent}",
            "size": MESSAGE_BYTES,
            "broker": name,
            "queue": number % QUEUES,
        }

    async def _send_one(self, value: dict[str, object]) -> Outcome:
        await self._environment.ready(PROBE)
        return await self._environment.request(PROBE, {"f": "send", **value})

    async def _queue_state(self, name: str, group: str) -> Outcome:
        scope = {"topic": self.topic, "group": group, "queues": QUEUES}
        return await self._ask(self._living(name), {"f": "queue_state", **scope})

    async def _read(self, reader: Reader) -> tuple[list[Row], bool]:
        """Let a reader read everything. Return its queues as far as brokers answered, and whether all did."""
        rows: list[Row] = []
        complete = True
        for name in _brokers(reader.positions):
            outcome = await self._queue_state(name, self.group)
            complete = complete and outcome.type == "ok"
            for queue, low, high, _ in outcome.value.get("queues", []):
                complete = await self._read_queue(reader, name, queue, high) and complete
                rows.append([name, queue, low, high, reader.positions[name, queue]])
        return rows, complete

    async def _read_queue(self, reader: Reader, name: str, queue: int, high: int) -> bool:
        """Deliver the messages behind the reader's position; return whether the broker returned all up to `high`."""
        # A power cut may have removed messages that the reader got. New messages then reuse their offsets.
        position = min(reader.positions[name, queue], high)
        where = {"topic": self.topic, "broker": name, "queue": queue}
        request = {"f": "read_queue", **where, "offset": position}
        outcome = await self._ask(self._living(name), request)
        messages = outcome.value.get("messages", [])
        if messages:
            value = {**where, "group": reader.group, "messages": messages}
            for type in ("invoke", "ok"):
                self._environment.recorder.record(self._process, type, "consume", value, node=ADMIN)
            position = messages[-1][1] + 1
        reader.positions[name, queue] = position
        return position >= high


def _brokers(queues: dict[BrokerQueue, int]) -> list[str]:
    return list(dict.fromkeys(name for name, _ in queues))


def order(code: RequestCode, ext: dict[str, str], body: str = "") -> dict[str, object]:
    """Return a request with which the harness's own client sends an administrator's request to a server."""
    return {"f": "order", "code": int(code), "ext": ext, "body": body}
