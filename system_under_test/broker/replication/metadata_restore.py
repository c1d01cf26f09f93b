"""Restores the metadata of a master with a new disk from its slaves.

RocketMQ's master never asks; it starts with empty metadata, and its slaves then copy the empty metadata.

For topics and groups the newest table wins, as all are copies of the same one; for offsets the highest in each queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from staticfire.system_under_test.broker.metadata.metadata_tables import MetadataTables
from staticfire.system_under_test.broker.metadata.offsets import OffsetTable, offset_table_from_json
from staticfire.system_under_test.broker.replication.slave_sync import ask_table
from staticfire.system_under_test.protocol.bodies import TopicConfigTable
from staticfire.system_under_test.protocol.bodies_clients import SubscriptionGroupTable
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.remoting import RemotingClient, RemotingError, parse_address
from staticfire.system_under_test.runtime.env import Log


class MetadataRestore:
    """Adopts the metadata of each peer. Asking a peer twice is harmless."""

    def __init__(
        self,
        client: RemotingClient,
        tables: MetadataTables,
        log: Log,
        *,
        on_topics: Callable[[Mapping[str, object]], None],
    ) -> None:
        """`on_topics` gets the replica's table of topics as received; it raises OSError, ValueError."""
        self._client = client
        self._on_topics = on_topics
        self._tables = tables
        self._log = log

    async def restore_from(self, peer: str) -> bool:
        """Fetch the metadata of the replica with this HA address; False if it did not send everything."""
        host, ha_port = parse_address(peer)
        # RocketMQ: the HA port is always the one after the main port
        address = f"{host}:{ha_port - 1}"
        try:
            document = await self._ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
            topics = TopicConfigTable.from_json(document)
            groups = SubscriptionGroupTable.from_json(
                await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            )
            offsets = await self._ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
            delays = await self._ask(address, RequestCode.GET_ALL_DELAY_OFFSET)
            self._tables.topics.take_newer(topics)
            self._on_topics(document)
            self._tables.groups.take_newer(groups)
            self._advance_offsets(offset_table_from_json(offsets))
            delay_file = self._tables.delay_offsets
            delay_file.save(later_delay_offsets(delay_file.load() or {}, delays))
        except (RemotingError, ValueError, OSError) as error:
            self._log.warning("metadata were not restored", peer=peer, error=str(error))
            return False
        self._log.info("metadata were restored", peer=peer)
        return True

    async def _ask(self, address: str, code: RequestCode) -> dict[str, object]:
        return await ask_table(self._client, address, code)

    def _advance_offsets(self, table: OffsetTable) -> None:
        for key, queues in table.items():
            topic, _, group = key.partition("@")
            for queue_id, offset in queues.items():
                known = self._tables.offsets.query(group, topic, queue_id)
                if known is None or offset > known:
                    self._tables.offsets.commit(group, topic, queue_id, offset)


def later_delay_offsets(
    known: Mapping[str, object], theirs: Mapping[str, object]
) -> dict[str, object]:
    """delayOffset.json with the higher offset of each level. Raises ValueError for a malformed document."""
    levels: dict[str, int] = {}
    for document in (known, theirs):
        table = document.get("offsetTable", {})
        if not isinstance(table, Mapping):
            raise ValueError(f"offsetTable of delays is {type(table).__name__}, not an object")  # noqa: TRY004
        for level, offset in table.items():
            levels[str(level)] = max(int(offset), levels.get(str(level), 0))
    return {"offsetTable": levels}
