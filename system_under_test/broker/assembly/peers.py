"""A broker's requests to other nodes: registration with name servers, copies of a master's tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from staticfire.system_under_test.broker.administration.acl_requests import broker_signer
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.metadata_tables import MetadataTables
from staticfire.system_under_test.broker.metadata.topics import covering, restricted
from staticfire.system_under_test.broker.periodic import Schedule
from staticfire.system_under_test.broker.policies.policies import RegistrationKind
from staticfire.system_under_test.broker.registration.name_server_calls import RegistrationEvents
from staticfire.system_under_test.broker.replication.metadata_restore import MetadataRestore
from staticfire.system_under_test.broker.replication.record_repair import RecordRepair
from staticfire.system_under_test.broker.replication.slave_sync import SlaveSync
from staticfire.system_under_test.protocol.bodies import TopicConfigTable
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.assembly.message_store import MessageStore


class Peers:
    """Sends requests to other nodes, as a client of theirs.

    Args:
        living_queues: returns (topic, queue id) of all queues except those that only hold messages of a deleted topic.
        on_topics: called with the master's table of topics when a slave has copied it.
        on_restored_topics: called with a replica's table of topics when a master has restored it.
        on_master: called with the HA address of the master when a name server has sent its addresses.
    """

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        registration: RegistrationKind,
        tables: MetadataTables,
        store: MessageStore,
        *,
        living_queues: Callable[[], list[tuple[str, int]]],
        on_master: Callable[[str], None],
        on_topics: Callable[[Mapping[str, object]], None],
        on_restored_topics: Callable[[Mapping[str, object]], None],
    ) -> None:
        self._config = config
        self._log = env.log
        self._tables = tables
        self._living_queues = living_queues
        self._on_master = on_master
        self._client = RemotingClient(
            env,
            sign=broker_signer(env.storage, config),
            on_end=lambda address: self.registration.connection_ended(address),
        )
        self.registration = registration(
            config,
            self._client,
            self._registered_topics,
            env.log,
            RegistrationEvents(on_master=self._learn_master, on_ordered=self._learn_ordered),
        )
        self.repair = RecordRepair(self._client, store, config.ha_peers, env.log)
        store.when_damaged(self.repair.damaged)
        self._slave_sync = SlaveSync(self._client, tables, env.log, on_topics=on_topics)
        self.restore = MetadataRestore(self._client, tables, env.log, on_topics=on_restored_topics)

    def _registered_topics(self) -> TopicConfigTable:
        """The topics to register. A slave adds those of its queues: its master may die before it has copied them."""
        table = self._tables.topics.table()
        if self._config.is_slave:
            table = covering(table, self._living_queues())
        return restricted(table, self._config.broker_permission)

    def _learn_ordered(self, topics: Collection[str]) -> None:
        try:
            self._tables.topics.set_order(topics)
        except OSError as error:  # the next registration tries again
            self._log.warning("order of topics not saved", error=str(error))

    def _learn_master(self, address: str, ha_address: str) -> None:
        if address != self._config.address:
            self._slave_sync.master_address = address
            self._on_master(ha_address)

    def schedule(self, schedule: Schedule) -> None:
        """Schedule a slave's copies of its master's tables."""
        config = self._config
        if config.is_slave:
            schedule.await_job(
                "slave sync",
                config.slave_sync_interval_s,
                self._slave_sync.run,
                first_s=config.slave_sync_first_s,
            )

    async def stop(self) -> None:
        """Unregister, and close the connections."""
        await self.registration.stop()
        await self.repair.stop()
        await self._client.close()
