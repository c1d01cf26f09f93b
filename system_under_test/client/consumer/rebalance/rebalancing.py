"""Computes and takes this member's share of the queues, periodically and on changes (RocketMQ: RebalanceService)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from staticfire.system_under_test.client.consumer.rebalance.allocation import Allocate
from staticfire.system_under_test.client.consumer.rebalance.assignment import Assignment
from staticfire.system_under_test.client.message_properties import RETRY_PREFIX
from staticfire.system_under_test.client.periodic_task import PeriodicTask
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.routing.group_members import may_lack_members, member_ids
from staticfire.system_under_test.client.routing.routes import Route
from staticfire.system_under_test.protocol.bodies import MessageQueue

REBALANCE_INTERVAL_S = 20.0  # RocketMQ: rocketmq.client.rebalance.waitInterval
REBALANCE_RETRY_S = 1.0  # while the members are unknown, or a queue is not free yet

OnAssignment = Callable[[list[MessageQueue]], None]


class Rebalancing:
    """Keeps the share of one member in all its topics up to date.

    Args:
        topics: read again in each round.
        allocate: None if every member has all queues.
        on_assignment: called with all queues of this member, sorted, after a change.
    """

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        assigned: Assignment,
        topics: Iterable[str],
        *,
        allocate: Allocate | None,
        on_assignment: OnAssignment | None,
    ) -> None:
        self._client = client
        self._group = group
        self._assigned = assigned
        self._topics = topics
        self._allocate = allocate
        self._on_assignment = on_assignment
        self._is_settled = False  # all members are known for certain, and we have our whole share
        self.task = PeriodicTask(client.env.log, "rebalance", self._round, self._interval_s)

    def wake(self) -> None:
        """Begin a round now: members or routes may have changed."""
        self.task.wake()

    def queues_lost(self) -> None:
        """Begin a round now and report the assignment: queues were lost or became free."""
        self._is_settled = False
        self.task.wake()
        self._report_assignment()

    def _interval_s(self) -> float:
        return REBALANCE_INTERVAL_S if self._is_settled else REBALANCE_RETRY_S

    async def _round(self) -> None:
        """Compute the share of each topic and take it. Nothing changes while route or members are unknown."""
        self._is_settled = False
        is_settled = True
        for topic in list(self._topics):
            route = self._client.routes.route(topic)
            share = None if route is None else await self._share(route)
            if share is None:
                # A retry topic may not exist before the first heartbeat; a change of its route will show that it does.
                is_settled = is_settled and topic.startswith(RETRY_PREFIX)
                continue
            changed, complete = await self._assigned.take_share(topic, share)
            is_settled = is_settled and complete and not self._may_lack_members(topic)
            if (
                changed
            ):  # before waiting for the next topic, as the listener may be called at any time now
                self._report_assignment()
        self._is_settled = is_settled

    async def _share(self, route: Route) -> list[MessageQueue] | None:
        """Our share of a topic; None if it cannot be known now."""
        if not route.read_queues:
            return None
        if self._allocate is None:
            return list(route.read_queues)
        ids = await member_ids(self._client, route, self._group)
        if ids is None:
            self._client.register_again()
            return None
        return self._allocate(route.read_queues, ids, self._client.client_id)

    def _may_lack_members(self, topic: str) -> bool:
        route = self._client.routes.route(topic)
        return (
            self._allocate is not None
            and route is not None
            and may_lack_members(self._client, route)
        )

    def _report_assignment(self) -> None:
        if self._on_assignment is not None:
            self._on_assignment(self._assigned.queues)
