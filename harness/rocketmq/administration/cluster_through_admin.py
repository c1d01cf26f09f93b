"""Changes a cluster for faults through the harness's own client, in the same way in every environment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence

from staticfire.faults.model.capabilities import Evidence, ProcessControl, QueueCountAnswers
from staticfire.harness.accounts import GUEST_KEY
from staticfire.harness.clients.consumer_kinds import PUSH
from staticfire.harness.clients.names import ADMIN
from staticfire.harness.clients.port import Outcome
from staticfire.harness.environments.environment import Environment
from staticfire.harness.rocketmq.administration.changes import ClusterChanges
from staticfire.harness.rocketmq.administration.side_topics import POLL_S, TRIES, SideTopic, order
from staticfire.harness.workloads.consumer_spec import BROADCASTING
from staticfire.harness.workloads.groups import groups_of
from staticfire.system_under_test.configuration.java_properties import parse_properties
from staticfire.system_under_test.protocol.codes import RequestCode


class ClusterThroughAdmin:
    """Implements `staticfire.faults.model.capabilities.ClusterControl`."""

    def __init__(
        self, environment: Environment, processes: ProcessControl, changes: ClusterChanges
    ) -> None:
        self._environment = environment
        self._processes = processes
        self._changes = changes

    async def routes_known(self, coordinator: str) -> int:
        request = {"f": "topics_known", "address": self._environment.server_address(coordinator)}
        outcome = await self._environment.request(ADMIN, request)
        return int(outcome.value.get("topics", 0))

    async def answers(self, node: str) -> bool:
        request = {"f": "ping", "address": self._environment.server_address(node)}
        outcome = await self._environment.request(ADMIN, request)
        return outcome.type == "ok"

    async def set_bootstrap(self, node: str, bootstrap: Sequence[str]) -> bool:
        self._environment.set_bootstrap(node, bootstrap)
        stopped = await self._processes.stop(node)
        if stopped:
            await self._environment.start(node)
        return stopped

    async def change_filter(self, consumer: str) -> bool:
        self._environment.change_specification(consumer)
        stopped = await self._processes.stop(consumer)
        await self._environment.start(consumer)
        return stopped

    async def set_queue_count(
        self, topic: str, count: int, leaders: Sequence[str] | None = None
    ) -> QueueCountAnswers:
        environment = self._environment
        count = max(count, self._changes.queues_max)
        sets = {leader.node: leader.replica_set for leader in environment.topology.leaders}
        answered_ns: dict[str, int] = {}
        unsure: list[str] = []
        for node in leaders or sets:
            request = {
                "f": "create_topic",
                "topic": topic,
                "queues": count,
                "address": environment.server_address(node),
            }
            answer = (await environment.request(ADMIN, request)).type
            if answer == "ok":
                answered_ns[node] = environment.now_ns()
            elif answer != "fail":
                unsure.append(node)
        # A master answers once its name servers have the change. If they are silent, the change is in its own table.
        for node in unsure:
            if await self._has_queues(node, topic, count):
                answered_ns[node] = environment.now_ns()
        unheard = tuple(node for node in unsure if node not in answered_ns)
        # A master that did not answer in time may carry it out later.
        if answered_ns or unheard:
            self._changes.queues_max = count
        confirmed = tuple(
            {"topic": topic, "stream": sets[node], "queues": count, "answered_ns": at_ns}
            for node, at_ns in answered_ns.items()
        )
        return QueueCountAnswers(confirmed=confirmed, unheard=unheard)

    async def _has_queues(self, node: str, topic: str, count: int) -> bool:
        address = self._environment.server_address(node)
        request = {"f": "topic_queues", "topic": topic, "address": address}
        outcome = await self._environment.request(ADMIN, request)
        queues = outcome.value.get("queues") if outcome.type == "ok" else None
        return queues is not None and queues[0] >= count

    async def reset_offsets(self, topic: str, share: float) -> list[Evidence]:
        environment = self._environment
        groups = dict.fromkeys(
            spec.group
            for members in groups_of(environment.campaign).values()
            for spec in members
            # Pull consumers ignore resets, also in Java (MQClientInstance.resetOffset).
            if spec.topic == topic and spec.model != BROADCASTING and spec.kind == PUSH
        )
        resets: list[Evidence] = []
        for master in environment.topology.leaders:
            address = environment.server_address(master.node)
            for group in groups:
                request = {
                    "f": "reset_offsets",
                    "topic": topic,
                    "group": group,
                    "address": address,
                    "share": share,
                }
                asked_ns = environment.now_ns()
                outcome = await environment.request(ADMIN, request)
                if outcome.type == "ok":
                    resets.append(
                        {
                            **outcome.value,
                            "group": group,
                            "topic": topic,
                            "stream": master.replica_set,
                            "asked_ns": asked_ns,
                            "answered_ns": environment.now_ns(),
                        }
                    )
        return resets

    async def change_option(self, name: str, value: str) -> dict[str, str]:
        former: dict[str, str] = {}
        for broker in self._environment.topology.replicas:
            before = await self._option(broker.node, name)
            if before is None or not await self._set_option(broker.node, name, value):
                continue
            if await self._option(broker.node, name) == value:
                former[broker.node] = before
        return former

    async def change_option_back(self, name: str, former: Mapping[str, str]) -> int:
        back = 0
        for node, value in former.items():
            for tried in range(TRIES):
                if tried:
                    await asyncio.sleep(POLL_S)
                if await self._set_option(node, name, value):
                    back += 1
                    break
        return back

    async def _option(self, node: str, name: str) -> str | None:
        """Read an option of a broker; None if the broker does not answer or does not know it."""
        outcome = await self._order(node, RequestCode.GET_BROKER_CONFIG)
        return parse_properties(outcome.value.get("body", "")).get(name)

    async def _set_option(self, node: str, name: str, value: str) -> bool:
        text = f"{name}={value}\n"
        return (await self._order(node, RequestCode.UPDATE_BROKER_CONFIG, text)).type == "ok"

    async def _order(
        self, node: str, code: RequestCode, body: str = "", *, ext: dict[str, str] | None = None
    ) -> Outcome:
        address = self._environment.server_address(node)
        return await self._environment.request(
            ADMIN, {**order(code, ext or {}, body), "address": address}
        )

    async def set_retry_queues(self, count: int) -> int:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        accepted = 0
        for node in self._living_masters():
            outcomes = []
            for group in groups_of(self._environment.campaign):
                wanted = {"groupName": group, "retryQueueNums": count, "consumeEnable": True}
                outcomes.append(await self._order(node, code, json.dumps(wanted)))
            accepted += all(outcome.type == "ok" for outcome in outcomes)
        return accepted

    async def withdraw_right(self) -> tuple[list[str], int]:
        masters = self._living_masters()
        ends = {node: await self._set_guests_right(node, "DENY") for node in masters}
        accepted = [node for node, outcomes in ends.items() if outcomes[-1].type == "ok"]
        if accepted == masters:
            self._changes.guest_rights.withdrawn()
        unanswered = [one for outcomes in ends.values() for one in outcomes if one.type == "info"]
        return accepted, len(unanswered)

    async def give_right_back(self) -> int:
        self._changes.guest_rights.give_back()
        ends = [await self._set_guests_right(node, "PUB") for node in self._living_masters()]
        return sum(outcomes[-1].type == "ok" for outcomes in ends)

    def _living_masters(self) -> list[str]:
        environment = self._environment
        nodes = (master.node for master in environment.topology.leaders)
        return [node for node in nodes if not environment.is_lost(node)]

    async def _set_guests_right(self, node: str, permission: str) -> list[Outcome]:
        """Ask a leader until it accepts; return how each attempt ended."""
        outcomes: list[Outcome] = []
        ext = {"accessKey": GUEST_KEY, "defaultTopicPerm": permission}
        for tried in range(TRIES):
            if tried:
                await asyncio.sleep(POLL_S)
            code = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG
            outcomes.append(await self._order(node, code, ext=ext))
            if outcomes[-1].type == "ok":
                break
        return outcomes

    async def clean_up(self) -> int:
        codes = (RequestCode.CLEAN_UNUSED_TOPIC, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        accepted = 0
        for broker in self._environment.topology.replicas:
            outcomes = [await self._order(broker.node, code) for code in codes]
            accepted += all(outcome.type == "ok" for outcome in outcomes)
        return accepted

    async def make_topic_anew(self, number: int) -> Evidence:
        return await self._side_topic(number).make_anew()

    async def clone_offsets(self, number: int) -> Evidence:
        return await self._side_topic(number).clone_offsets()

    def _side_topic(self, number: int) -> SideTopic:
        side = SideTopic(self._environment, number, len(self._changes.side_topics))
        self._changes.side_topics.append(side)
        return side

    async def go_on_beside(self, number: int) -> None:
        for side in self._changes.side_topics:
            if side.number == number:
                await side.go_on()
