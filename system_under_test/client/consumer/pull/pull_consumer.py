"""Reads queues at the caller's request (RocketMQ: DefaultMQPullConsumerImpl).

There is no membership and no rebalance: the caller chooses queue and offset, and commits if it wants to. If a master
does not answer, requests go to another replica of the broker name.
"""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.system_under_test.acl.signature import Credentials
from staticfire.system_under_test.client.consumer.pulling import (
    PullAnswer,
    pull_command,
    read_answer,
)
from staticfire.system_under_test.client.consumer.subscription import ALL, TAG, Subscription
from staticfire.system_under_test.client.offsets.offset_store import (
    OffsetStore,
    OnCommitSent,
    OnOffsetRead,
)
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.routing.routes import MASTER_ID
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.runtime.env import Env

PULL_TIMEOUT_S = 10.0  # RocketMQ: consumerPullTimeoutMillis
HOLD_S = 20.0  # RocketMQ: brokerSuspendMaxTimeMillis
HELD_TIMEOUT_S = 30.0  # RocketMQ: consumerTimeoutMillisWhenSuspend


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerConfig:
    """`client_id` is `ip@name` and unique in the cluster."""

    group: str
    name_servers: tuple[str, ...]
    client_id: str
    pull_timeout_s: float = PULL_TIMEOUT_S
    credentials: Credentials | None = None  # RocketMQ: AclClientRPCHook


class PullConsumer:
    """All methods raise ClientError (no route, no replica, refused) or RemotingError (no answer)."""

    def __init__(
        self,
        env: Env,
        config: PullConsumerConfig,
        *,
        on_offset_read: OnOffsetRead | None = None,
        on_commit_sent: OnCommitSent | None = None,
    ) -> None:
        """
        Args:
            on_offset_read: called with each offset that a broker returns.
            on_commit_sent: called with the broker that has stored an offset.
        """
        self._config = config
        self._client = ClientInstance(env, config)
        self._offsets = OffsetStore(
            self._client, config.group, on_read=on_offset_read, on_sent=on_commit_sent
        )
        self._version_ms = env.clock.wall_ms()
        self._suggested_ids: dict[MessageQueue, int] = {}  # broker ids that brokers have suggested

    async def start(self) -> None:
        self._client.start()

    async def stop(self) -> None:
        await self._client.stop()

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, sorted, by a new query of the name servers. Raises ClientError."""
        return list((await self._client.look_up(topic)).read_queues)

    def known_queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic by the route that the client has, sorted; empty without a route."""
        route = self._client.routes.route(topic)
        return [] if route is None else list(route.read_queues)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        count_max: int = 32,
        expression: str = ALL,
        expression_type: str = TAG,
        waits: bool = False,
    ) -> PullAnswer:
        """Up to `count_max` messages from `offset` on; the broker answers at once, even if there are none.

        With `waits`, the broker holds a pull that finds nothing until there is a message, for 20 s to 25 s (RocketMQ:
        pullBlockIfNotFound). Raises ValueError for an unknown expression type.
        """
        subscription = Subscription(
            queue.topic, expression, version_ms=self._version_ms, expression_type=expression_type
        )
        command = pull_command(
            self._config.group,
            queue,
            subscription,
            offset=offset,
            count_max=count_max,
            hold_s=HOLD_S if waits else 0.0,
        )
        await self._client.read_route(queue.topic)
        broker_id, response = await self._client.ask_replica(
            queue.broker_name,
            command,
            HELD_TIMEOUT_S if waits else self._config.pull_timeout_s,
            self._suggested_ids.get(queue, MASTER_ID),
        )
        answer = read_answer(response, broker_id)
        self._suggested_ids[queue] = answer.suggested_broker_id
        answer.messages[:] = subscription.matching(answer.messages)
        return answer

    async def min_offset(self, queue: MessageQueue) -> int:
        await self._client.read_route(queue.topic)
        return await self._offsets.bounds.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message of the queue will get."""
        await self._client.read_route(queue.topic)
        return await self._offsets.bounds.max_offset(queue)

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """The group's stored offset; None if the answering broker has none."""
        await self._client.read_route(queue.topic)
        return await self._offsets.stored(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset and wait for the broker to confirm it."""
        await self._client.read_route(queue.topic)
        await self._offsets.commit_confirmed(queue, offset)
