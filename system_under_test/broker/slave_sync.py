"""A slave copies the master's metadata (RocketMQ, SlaveSynchronize)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from system_under_test.broker.offsets import ConsumerOffsets, offset_table_from_json
from system_under_test.broker.subscription_groups import SubscriptionGroups
from system_under_test.broker.topics import Topics
from system_under_test.env import Log
from system_under_test.protocol import json_dialect
from system_under_test.protocol.bodies import TopicConfigTable
from system_under_test.protocol.codes import RequestCode, ResponseCode
from system_under_test.protocol.command import RemotingCommand
from system_under_test.remoting import RemotingClient, RemotingError

SYNC_TIMEOUT_S = 3.0


class SlaveSync:
    """Copies topics, consumer offsets and group settings. Each step stands alone; a failed one is logged."""

    def __init__(
        self,
        client: RemotingClient,
        topics: Topics,
        offsets: ConsumerOffsets,
        groups: SubscriptionGroups,
        log: Log,
    ) -> None:
        self._client = client
        self._topics = topics
        self._offsets = offsets
        self._groups = groups
        self._log = log
        self.master_address: str | None = None

    async def run(self) -> None:
        """Copy everything once, if the master is known."""
        if self.master_address is None:
            return
        for name, step in (
            ("topics", self._copy_topics),
            ("consumer offsets", self._copy_offsets),
            ("subscription groups", self._copy_groups),
        ):
            await self._attempt(name, step, self.master_address)

    async def _attempt(
        self, name: str, step: Callable[[str], Awaitable[None]], master_address: str
    ) -> None:
        try:
            await step(master_address)
        except (RemotingError, ValueError, OSError) as error:
            self._log.warning("not copied from the master", what=name, error=str(error))

    async def _copy_topics(self, master_address: str) -> None:
        document = await self._ask(master_address, RequestCode.GET_ALL_TOPIC_CONFIG)
        self._topics.adopt(TopicConfigTable.from_json(document))

    async def _copy_offsets(self, master_address: str) -> None:
        document = await self._ask(master_address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        self._offsets.merge(offset_table_from_json(document))

    async def _copy_groups(self, master_address: str) -> None:
        document = await self._ask(master_address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        self._groups.adopt(document)

    async def _ask(self, master_address: str, code: RequestCode) -> Mapping[str, object]:
        request = RemotingCommand.request(code)
        response = await self._client.invoke(
            master_address, request, SYNC_TIMEOUT_S, close_on_timeout=True
        )
        if response.code != ResponseCode.SUCCESS:
            raise ValueError(f"master answered code {response.code}: {response.remark}")
        document = json_dialect.loads(response.body.decode())
        if not isinstance(document, Mapping):
            raise ValueError(f"master answered {type(document).__name__}, not an object")  # noqa: TRY004
        return document
