"""One broker: composes store, replication, processors and shell (RocketMQ, BrokerController)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from system_under_test.broker.administration.acl_requests import (
    WATCH_INTERVAL_S,
    AccessControl,
    broker_signer,
)
from system_under_test.broker.administration.administration import Administration
from system_under_test.broker.administration.figures import delay_figures, flow_figures
from system_under_test.broker.administration.retention import Cleaning
from system_under_test.broker.client_requests import ClientRequests, notify_consumers_changed
from system_under_test.broker.clients import Clients
from system_under_test.broker.config import BrokerConfig
from system_under_test.broker.flow_control import FlowControl
from system_under_test.broker.flush import StoreFailed
from system_under_test.broker.hold import HeldPulls
from system_under_test.broker.listeners import Listeners
from system_under_test.broker.log_progress import LogProgress
from system_under_test.broker.message_queries import MessageQueries
from system_under_test.broker.offsets import OffsetsFile
from system_under_test.broker.periodic import Schedule
from system_under_test.broker.pull import PullProcessor
from system_under_test.broker.pull_reports import PullReports
from system_under_test.broker.queue_queries import QueueQueries
from system_under_test.broker.registering.name_server_calls import RegistrationEvents
from system_under_test.broker.replication.catch_up import CatchUpMark, MasterCatchUp
from system_under_test.broker.replication.ha import HaService
from system_under_test.broker.replication.ha_config import HaEvents, make_ha_config
from system_under_test.broker.replication.ha_requests import HaRequests
from system_under_test.broker.replication.metadata_restore import MetadataRestore
from system_under_test.broker.replication.slave_sync import SlaveSync
from system_under_test.broker.request_table import make_handlers, refuse_while_restoring
from system_under_test.broker.send import SendProcessor
from system_under_test.broker.services.internal_copies import InternalCopies
from system_under_test.broker.services.message_services import MessageServices
from system_under_test.broker.store_config import make_store_config
from system_under_test.broker.subscription_groups import SubscriptionGroups
from system_under_test.broker.topics import TopicChange, Topics, covering, restricted
from system_under_test.env import Env
from system_under_test.policies import broker_policies
from system_under_test.protocol.bodies import TopicConfigTable
from system_under_test.remoting import Handler, RemotingClient
from system_under_test.store.errors import StoreError
from system_under_test.store.message_store import MessageStore
from system_under_test.store.metadata_file import MetadataFile

HOLD_CHECK_INTERVAL_S = 5.0  # RocketMQ: PullRequestHoldService
CLIENT_SCAN_INTERVAL_S = 10.0  # RocketMQ: ClientHousekeepingService


class Broker:
    """One broker on one store: `open`, `start`, then woken by events until `stop`."""

    def __init__(self, env: Env, config: BrokerConfig) -> None:
        self._env = env
        self._config = config
        self._policies = broker_policies(config)
        clock = env.clock
        self.store = MessageStore(
            env.storage,
            clock,
            env.log,
            make_store_config(config),
            policy=self._policies.store,
        )
        self.offsets = self._policies.offsets()
        self._offsets_file = OffsetsFile(self.offsets, self._metadata_file("consumerOffset.json"))
        self.topics = self._make_topics()
        self.groups = self._make_groups()
        self.clients = self._make_clients()
        self.administration = Administration(
            env,
            config,
            self._policies.admin,
            self.store,
            self.topics,
            self.groups,
            self.offsets,
            self.clients,
        )
        self._client = RemotingClient(env, sign=broker_signer(env.storage, config))
        self._access = AccessControl(env, config, self._policies.acl)
        self._registration = self._policies.registration(
            config,
            self._client,
            self._registered_topics,
            env.log,
            RegistrationEvents(on_master=self._learn_master, on_ordered=self._learn_ordered),
        )
        tables = (self.topics, self.offsets, self.groups)
        delay_offsets = self._metadata_file("delayOffset.json")
        self._slave_sync = SlaveSync(self._client, *tables, delay_offsets, env.log)
        self._catch_up = MasterCatchUp(
            config,
            CatchUpMark(self._metadata_file("catchUp.json")),
            MetadataRestore(self._client, *tables, delay_offsets, env.log),
            self.store,
            self.topics,
            self._offsets_file,
            env.log,
        )
        self._schedule = Schedule(env.log)
        self._accepts_sends = False
        self.failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        ha_config = make_ha_config(config, self._policies.replication)
        self.ha = HaService(env, self.store, ha_config, self._ha_events())
        self.flow = FlowControl(
            config,
            {},
            unflushed_bytes=self._unflushed_bytes,
            now_ns=clock.monotonic_ns,
        )
        self._progress = LogProgress(
            config,
            self._policies,
            self.store,
            self.ha,
            self.flow,
            self.administration.rates.put_times,
            on_failure=self._failed,
            now_ns=clock.monotonic_ns,
        )
        self._copies = self._make_copies()
        self._pull = self._make_pull()
        self._progress.on_visible = self._pull.message_arrived
        self._services = self._make_services()
        self.cleaning = self._make_cleaning()
        self._handlers = self._make_handlers()
        self.flow.set_handlers(self._handlers)
        self.administration.figures += [
            self._progress.commits.figures,
            lambda: flow_figures(self.flow, clock.monotonic_ns),
            lambda: delay_figures(self._services.delay_offsets(), self.store),
        ]
        self._listeners = Listeners(
            env,
            config,
            self._access.guarded(self.flow.handle),
            on_close=self.clients.connection_closed,
        )

    def _metadata_file(self, name: str) -> MetadataFile:
        return self._policies.metadata_file(
            self._env.storage, f"{self._config.store_path}/config/{name}"
        )

    def _make_topics(self) -> Topics:
        return Topics(
            self._config,
            self._metadata_file("topics.json"),
            now_ms=self._env.clock.wall_ms,
            on_change=self._topics_changed,
        )

    def _make_groups(self) -> SubscriptionGroups:
        return SubscriptionGroups(
            self._config,
            self._metadata_file("subscriptionGroup.json"),
            now_ms=self._env.clock.wall_ms,
        )

    def _make_clients(self) -> Clients:
        return Clients(
            now_ns=self._env.clock.monotonic_ns,
            notify=notify_consumers_changed,
            may_notify=self._may_notify,
            tells_of_silent_members=self._policies.admin.tells_of_silent_members,
        )

    def _may_notify(self, group: str) -> bool:
        settings = self.groups.get(group)
        wanted = settings is None or settings.notify_consumer_ids_changed_enable
        return wanted and self._config.notify_consumer_ids_changed

    def _make_pull(self) -> PullProcessor:
        reports = PullReports(
            self._config,
            self.administration.statistics,
            self.administration.rates,
            self._copies,
            is_ready=self.accepts_sends,
            now_ms=self._env.clock.wall_ms,
            now_ns=self._env.clock.monotonic_ns,
        )
        return PullProcessor(
            self._config,
            self.store,
            self.topics,
            self.groups,
            self.clients,
            self.offsets,
            HeldPulls(),
            now_ns=self._env.clock.monotonic_ns,
            reports=reports,
        )

    def _make_copies(self) -> InternalCopies:
        return InternalCopies(
            self.store,
            self._policies.services.copies,
            self.administration.statistics,
            acknowledge=self._progress.acknowledge,
            safe_end=self._progress.copies_safe_end,
            on_refusal=self._progress.wake,
        )

    def _make_services(self) -> MessageServices:
        return MessageServices(
            self._env,
            self._config,
            self._policies.services,
            self.store,
            self.topics,
            self.groups,
            self.clients,
            self.offsets,
            self._copies,
            self.administration.statistics,
            self._metadata_file("delayOffset.json"),
            is_ready=self.accepts_sends,
        )

    # Life

    def open(self) -> None:
        """Recover the store and load the metadata.

        Raises:
            StoreError: they cannot be opened, in one sentence.
        """
        self._access.load()
        report = self.store.open()
        self._env.log.info(
            "store opened",
            clean=report.clean,
            end_offset=report.end_offset,
            cut_bytes=report.cut_bytes,
            redispatched=report.messages_redispatched,
        )
        for name, load in (
            ("open catch-up", self._catch_up.load),
            ("topics", self.topics.load),
            ("subscription groups", self.groups.load),
            ("consumer offsets", self._offsets_file.load),
            ("delay offsets", self._services.load),
        ):
            try:
                load()
            except ValueError as error:
                raise StoreError(
                    f"the {name} in {self._config.store_path}/config cannot be used: {error}"
                ) from error
        if self._policies.replication.fetches_missing:
            self._catch_up.begin(clean=report.clean)

    def _registered_topics(self) -> TopicConfigTable:
        """What name servers are told. The master may be gone before a slave has copied its latest topics."""
        table = self.topics.table()
        if self._config.is_slave:
            table = covering(table, self.store.queue_view.list_keys())
        return restricted(table, self._config.broker_permission)

    async def start(self) -> None:
        """Serve, replicate and register. Raises OSError if a port cannot be bound.

        A master that has nothing yet but may get it back from its slaves registers once it has it: until then clients
        shall read from the slaves, and hear from nobody that there is no such topic, group or offset.
        """
        restores = self._catch_up.restores_metadata
        if restores:
            self.flow.set_handlers(refuse_while_restoring(self._handlers))
        await self._listeners.start()
        await self.ha.start(catch_up=self._catch_up.is_needed)
        if not restores:
            self._registration.start()
        self._start_jobs()
        self._env.log.info("broker started", address=self._config.address, ready=self.ha.ready)

    def _ha_events(self) -> HaEvents:
        return HaEvents(
            on_progress=lambda: self._progress.replicated(),
            on_slaves_lost=lambda: self._progress.slaves_lost(),
            on_received=lambda: self._progress.wake(),
            on_peer_heard=self._catch_up.peer_heard,
            on_caught_up=self._caught_up,
        )

    def _make_cleaning(self) -> Cleaning:
        retention = self.store.retention
        retention.may_force = self._policies.may_force
        self.store.disks.look_interval_s = self._policies.full_disk_look_s
        retention.least_committed = self.offsets.least_committed
        return Cleaning(
            self._config,
            self.store,
            fail=self._progress.failed,
            is_topic=self.topics.is_used,
        )

    def _make_handlers(self) -> dict[int, Handler]:
        config, env = self._config, self._env
        send = SendProcessor(
            config,
            self.store,
            self.topics,
            self.groups,
            env.random,
            is_ready=self.accepts_sends,
            acknowledge=self._progress.acknowledge,
            on_refusal=self._progress.wake,
            diversion=self._services.diversion,
            statistics=self.administration.statistics,
            now_ms=env.clock.wall_ms,
        )
        queries = QueueQueries(config, self.store, self.offsets)
        clients = ClientRequests(self.clients, self.topics, self.groups, is_slave=config.is_slave)
        admin = self.administration.handlers()
        ha = HaRequests(self.ha.lift, is_slave=config.is_slave)
        messages = MessageQueries(config, self.store)
        handlers = make_handlers(send, self._pull, queries, messages, clients, admin, ha)
        services = self._services.handlers(send) | self._access.handlers()
        return handlers | services | self.cleaning.handlers()

    def _start_jobs(self) -> None:
        config, schedule = self._config, self._schedule
        if config.acl_enable:
            schedule.call("accounts", WATCH_INTERVAL_S, self._access.reload)
        schedule.call("held pulls", HOLD_CHECK_INTERVAL_S, self._pull.check_held)
        schedule.call("client scan", CLIENT_SCAN_INTERVAL_S, self.clients.expire)
        self.administration.start(schedule)
        self.cleaning.schedule(schedule)
        self._progress.commits.schedule(schedule)
        schedule.call("queue flush", config.queue_flush_interval_s, self._progress.flush_queues)
        interval_s = config.offset_flush_interval_s
        schedule.await_job(
            "consumer offsets", interval_s, self._offsets_file.save, first_s=interval_s
        )
        self._services.start_jobs(schedule)
        if config.is_slave:
            schedule.await_job(
                "slave sync",
                config.slave_sync_interval_s,
                self._slave_sync.run,
                first_s=config.slave_sync_first_s,
            )

    async def stop(self) -> None:
        """Stop gracefully: nothing that was stored is lost, and the next start needs no recovery."""
        self._accepts_sends = False
        self.flow.stop()
        await self._schedule.stop()
        self._services.stop()
        await self._progress.drain_log()
        self._progress.stop_answering()
        await self._listeners.stop()
        await self.ha.stop()
        await self._progress.drain_queues()
        await self._services.save()
        self.offsets.changed = True
        await self._offsets_file.save()
        await self._registration.stop()
        await self._client.close()
        self.store.close()
        self._env.log.info("broker stopped", address=self._config.address)

    async def _caught_up(self) -> None:
        """The log holds everything that replicas have: from here on sends are accepted."""
        await self._progress.drain_log()
        self._progress.dispatch()
        if self._config.is_slave:  # a slave's queues always lag behind the master's offsets
            return
        if await self._catch_up.end():
            self.flow.set_handlers(self._handlers)
            self._registration.start()
        for clamped in self.offsets.clamp(self._queue_end):
            self._env.log.warning("consumer offset was beyond its queue", offset=clamped)
        self._services.begin()
        self._accepts_sends = True

    def _queue_end(self, topic: str, queue_id: int) -> int:
        return self.store.queue_bounds(topic, queue_id)[1]

    # Requests

    def accepts_sends(self) -> bool:
        """Whether this is a master that has everything its replicas have; until then sends are answered with 14."""
        return self._accepts_sends

    def _unflushed_bytes(self) -> int:
        return self.store.end_offset - self.store.flushed_offset

    # Events

    def _failed(self, error: Exception) -> None:
        """Fail-stop: promise nothing any more, and let `main` end the process."""
        self._accepts_sends = False
        if not self.failure.done():
            self.failure.set_result(error)

    def _topics_changed(self, change: TopicChange) -> None:
        self._registration.topics_changed(change)
        if change.deleted:
            self.cleaning.clean_now()

    def _learn_ordered(self, topics: Collection[str]) -> None:
        try:
            self.topics.set_order(topics)
        except OSError as error:  # the next registration tries again
            self._env.log.warning("order of topics not saved", error=str(error))

    def _learn_master(self, address: str, ha_address: str) -> None:
        if address != self._config.address:
            self._slave_sync.master_address = address
            self.ha.set_master_address(ha_address)


async def main(env: Env, config: BrokerConfig) -> None:
    """Run a broker until cancelled, then stop it gracefully.

    Raises:
        StoreError: the store cannot be opened.
        StoreFailed: a write or an fsync failed; the store was left as it is, for recovery at the next start.
    """
    broker = Broker(env, config)
    broker.open()
    try:
        await broker.start()
        error = await broker.failure
    except asyncio.CancelledError:
        await broker.stop()
        raise
    raise StoreFailed(f"store {config.store_path} failed: {error}") from error
