"""Copies the master's metadata to a slave (RocketMQ, SlaveSynchronize)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from staticfire.system_under_test.broker.metadata.metadata_tables import MetadataTables
from staticfire.system_under_test.broker.metadata.offsets import offset_table_from_json
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import TopicConfigTable
from staticfire.system_under_test.protocol.bodies_clients import SubscriptionGroupTable
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import RemotingClient, RemotingError
from staticfire.system_under_test.runtime.env import Log

SYNC_TIMEOUT_S = 3.0


class SlaveSync:
    """Copies topics, offsets of consumers and of delay levels, and group settings.

    The steps are independent; a failed one is logged. It replaces topics and groups if their version differs.
    """

    def __init__(
        self,
        client: RemotingClient,
        tables: MetadataTables,
        log: Log,
        *,
        on_topics: Callable[[Mapping[str, object]], None],
    ) -> None:
        """`on_topics` gets the master's table of topics as received; it raises OSError, ValueError."""
        self._client = client
        self._on_topics = on_topics
        self._tables = tables
        self._log = log
        self.master_address: str | None = None

    async def run(self) -> None:
        """Copy everything once, if the master is known."""
        if self.master_address is None:
            return
        for name, step in (
            ("topics", self._copy_topics),
            ("consumer offsets", self._copy_offsets),
            ("delay offsets", self._copy_delay_offsets),
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
        self._tables.topics.adopt(TopicConfigTable.from_json(document))
        self._on_topics(document)

    async def _copy_offsets(self, master_address: str) -> None:
        document = await self._ask(master_address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        self._tables.offsets.merge(offset_table_from_json(document))

    async def _copy_delay_offsets(self, master_address: str) -> None:
        """Copy to the file only: a slave does not deliver delayed messages (RocketMQ, syncDelayOffset)."""
        document = await self._ask(master_address, RequestCode.GET_ALL_DELAY_OFFSET)
        self._tables.delay_offsets.save(document)

    async def _copy_groups(self, master_address: str) -> None:
        document = await self._ask(master_address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        self._tables.groups.adopt(SubscriptionGroupTable.from_json(document))

    async def _ask(self, master_address: str, code: RequestCode) -> dict[str, object]:
        return await ask_table(self._client, master_address, code)


async def ask_table(client: RemotingClient, address: str, code: RequestCode) -> dict[str, object]:
    """Fetch a table of another broker.

    Raises:
        RemotingError: the broker does not answer.
        ValueError: it refuses, or its answer is malformed.
    """
    request = RemotingCommand.request(code)
    response = await client.invoke(address, request, SYNC_TIMEOUT_S, close_on_timeout=True)
    if response.code != ResponseCode.SUCCESS:
        raise ValueError(f"{address} answered code {response.code}: {response.remark}")
    document = json_dialect.loads(response.body.decode())
    if not isinstance(document, dict):
        raise ValueError(f"{address} answered {type(document).__name__}, not an object")  # noqa: TRY004
    return document
