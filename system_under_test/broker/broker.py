"""One broker: composes store, replication, processors and shell (RocketMQ, BrokerController)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from system_under_test.broker.administration.acl_requests import (
    WATCH_INTERVAL_S,
    AccessControl,
)
from system_under_test.broker.administration.administration import Administration
from system_under_test.broker.administration.figures import delay_figures, flow_figures
from system_under_test.broker.client_requests import notify_consumers_changed
from system_under_test.broker.clients import Clients
from system_under_test.broker.config import BrokerConfig
from system_under_test.broker.flush import StoreFailed
from system_under_test.broker.listeners import Listeners
from system_under_test.broker.log_engine import LogEngine
from system_under_test.broker.metadata_tables import load_files, make_tables
from system_under_test.broker.neighbours import Neighbours
from system_under_test.broker.periodic import Schedule
from system_under_test.broker.processors import Processors
from system_under_test.broker.replication.catch_up import CatchUpMark, MasterCatchUp
from system_under_test.broker.request_table import refuse_while_restoring
from system_under_test.broker.store_config import make_store_config
from system_under_test.broker.topics import TopicChange
from system_under_test.env import Env
from system_under_test.policies import broker_policies
from system_under_test.remoting import CannotListen
from system_under_test.store.errors import StoreError
from system_under_test.store.message_store import MessageStore
from system_under_test.store.metadata_file import MetadataFile

HOLD_CHECK_INTERVAL_S = 5.0  # RocketMQ: PullRequestHoldService
REGISTERED_TIMEOUT_S = 1.0  # who starts a broker shall not wait for a dead name server
CLIENT_SCAN_INTERVAL_S = 10.0  # RocketMQ: ClientHousekeepingService


class Broker:
    """One broker on one store: `open`, `start`, then woken by events until `stop`."""

    def __init__(self, env: Env, config: BrokerConfig) -> None:
        self._env = env
        self._config = config
        self._policies = broker_policies(config)
        policies = self._policies
        self.store = MessageStore(
            env.storage, env.clock, env.log, make_store_config(config), policy=policies.store
        )
        self.tables = make_tables(
            config,
            env.clock,
            policies.offsets(),
            self._metadata_file,
            on_topic_change=self._topics_changed,
        )
        self.clients = Clients(
            now_ns=env.clock.monotonic_ns,
            notify=notify_consumers_changed,
            may_notify=self.tables.groups.hears_of_changes,
            tells_of_silent_members=policies.admin.tells_of_silent_members,
        )
        self.administration = Administration(
            env,
            config,
            policies.admin,
            self.store,
            self.tables.topics,
            self.tables.groups,
            self.tables.offsets,
            self.clients,
        )
        self._engine = LogEngine(
            env,
            config,
            policies,
            self.store,
            self.administration.rates.put_times,
            on_failure=self._failed,
            on_peer_heard=lambda peer: self._catch_up.peer_heard(peer),
            on_caught_up=self._caught_up,
        )
        self.ha = self._engine.ha
        self.flow = self._engine.flow
        self._progress = self._engine.progress
        self._access = AccessControl(env, config, policies.acl)
        self._neighbours = Neighbours(
            env,
            config,
            policies.registration,
            self.tables,
            queue_keys=self.store.queue_view.list_keys,
            on_master=self.ha.set_master_address,
        )
        self._catch_up = MasterCatchUp(
            config,
            CatchUpMark(self._metadata_file("catchUp.json")),
            self._neighbours.restore,
            self.store,
            self.tables,
            env.log,
        )
        self._schedule = Schedule(env.log)
        self._accepts_sends = False
        self.failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._processors = Processors(
            env,
            config,
            policies.services,
            store=self.store,
            tables=self.tables,
            clients=self.clients,
            administration=self.administration,
            progress=self._progress,
            is_ready=self.accepts_sends,
        )
        self._services = self._processors.services
        self._progress.on_visible = self._processors.pull.messages_arrived
        self.cleaning = self._engine.make_cleaning(
            is_topic=self.tables.topics.is_used,
            is_ready=self.accepts_sends,
            least_committed=self.tables.offsets.least_committed,
        )
        self._handlers = (
            self._processors.handlers(self.ha) | self._access.handlers() | self.cleaning.handlers()
        )
        self.flow.set_handlers(self._handlers)
        self.administration.live_config.on_change += [
            self._engine.options_changed,
            self._processors.options_changed,
            self._neighbours.registration.options_changed,
        ]
        self.administration.figures += [
            self._progress.commits.figures,
            lambda: flow_figures(self.flow, env.clock.monotonic_ns),
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

    # Life

    def open(self) -> None:
        """Recover the store and load the metadata.

        Raises:
            StoreError: they cannot be opened, in one sentence; then nothing of them stays open.
        """
        self._access.load()
        report = self._engine.open()
        try:
            self._load_metadata()
        except StoreError:
            with suppress(OSError):
                self.store.close()
            raise
        if self._policies.replication.fetches_missing:
            self._catch_up.begin(clean=report.clean)

    def _load_metadata(self) -> None:
        load_files(
            self._env.storage,
            f"{self._config.store_path}/config",
            {
                "open catch-up": self._catch_up.load,
                "topics": self.tables.topics.load,
                "subscription groups": self.tables.groups.load,
                "consumer offsets": self.tables.offsets_file.load,
                "delay offsets": self._services.load,
            },
        )

    async def start(self) -> None:
        """Serve, replicate and register. Raises CannotListen; then `stop` is still needed.

        A master that has nothing yet but may get it back from its slaves registers once it has it: until then clients
        shall read from the slaves, and hear from nobody that there is no such topic, group or offset.
        """
        restores = self._catch_up.restores_metadata
        if restores:
            self.flow.set_handlers(refuse_while_restoring(self._handlers))
        await self._listeners.start()
        await self.ha.start(catch_up=self._catch_up.is_needed)
        if not restores:
            self._neighbours.registration.start()
        self._start_jobs()
        self._env.log.info("broker started", address=self._config.address, ready=self.ha.ready)

    async def until_registered(self) -> None:
        """Return when name servers have been told for the first time, or are too slow to be waited for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REGISTERED_TIMEOUT_S):
                await self._neighbours.registration.tried.wait()

    def _start_jobs(self) -> None:
        config, schedule = self._config, self._schedule
        if config.acl_enable:
            schedule.call("accounts", WATCH_INTERVAL_S, self._access.reload)
        schedule.call("held pulls", HOLD_CHECK_INTERVAL_S, self._processors.pull.check_held)
        schedule.call("client scan", CLIENT_SCAN_INTERVAL_S, self.clients.expire)
        self.administration.start(schedule)
        self.cleaning.schedule(schedule)
        self._engine.schedule(schedule)
        interval_s = config.offset_flush_interval_s
        schedule.await_job(
            "consumer offsets", interval_s, self.tables.offsets_file.save, first_s=interval_s
        )
        self._services.start_jobs(schedule)
        self._neighbours.schedule(schedule)

    async def stop(self) -> None:
        """Stop gracefully: nothing that was stored is lost, and the next start needs no recovery.

        Raises StoreFailed once everything has ended if something could not be written, such as on a full disk.
        """
        self._accepts_sends = False
        self.flow.stop()
        await self._schedule.stop()
        self._services.stop()
        await self._progress.drain_log()
        self._progress.stop_answering()
        await self._listeners.stop()
        await self.ha.stop()
        await self._progress.drain_queues()
        self.tables.offsets.changed = True
        unsaved = [
            await _unsaved("delay offsets", self._services.save),
            await _unsaved("consumer offsets", self.tables.offsets_file.save),
        ]
        await self._neighbours.stop()
        self._progress.close()
        unsaved.append(await _unsaved("store", self._close_store))
        self._env.log.info("broker stopped", address=self._config.address)
        problems = "; ".join(filter(None, unsaved))
        if problems:
            raise StoreFailed(
                f"store {self._config.store_path} was not saved completely: {problems}"
            )

    async def _close_store(self) -> None:
        self.store.close()

    async def _caught_up(self) -> None:
        """The log holds everything that replicas have: from here on sends are accepted."""
        await self._progress.drain_log()
        self._progress.dispatch()
        if self._config.is_slave:  # a slave's queues always lag behind the master's offsets
            return
        if await self._catch_up.end():
            self.flow.set_handlers(self._handlers)
            self._neighbours.registration.start()
        for clamped in self._policies.clamp_offsets(self.tables.offsets, self._engine.queue_end):
            self._env.log.warning("consumer offset was beyond its queue", offset=clamped)
        self._services.begin()
        self._accepts_sends = True

    # Requests

    def accepts_sends(self) -> bool:
        """Whether this is a master that has everything its replicas have; until then sends are answered with 14."""
        return self._accepts_sends

    # Events

    def _failed(self, error: Exception) -> None:
        """Fail-stop: promise nothing any more, and let `main` end the process."""
        self._accepts_sends = False
        if not self.failure.done():
            self.failure.set_result(error)

    def _topics_changed(self, change: TopicChange) -> None:
        self._neighbours.registration.topics_changed(change)
        if change.deleted:
            self.cleaning.clean_now()


async def _unsaved(name: str, save: Callable[[], Awaitable[None]]) -> str:
    """Save at the end: why that failed, or nothing."""
    try:
        await save()
    except OSError as error:
        return f"{name}: {error}"
    return ""


async def main(
    env: Env, config: BrokerConfig, *, on_ready: Callable[[str], None] | None = None
) -> None:
    """Run a broker until cancelled, then stop it gracefully. `on_ready` gets the address once clients can find it.

    Raises:
        StoreError: the store cannot be opened.
        CannotListen: a port cannot be bound.
        StoreFailed: a write or an fsync failed; the store was left as it is, for recovery at the next start.
    """
    broker = Broker(env, config)
    broker.open()
    try:
        await broker.start()
        if on_ready is not None:
            await broker.until_registered()
            on_ready(config.address)
        error = await broker.failure
    except (asyncio.CancelledError, CannotListen):
        await broker.stop()
        raise
    raise StoreFailed(f"store {config.store_path} failed: {error}") from error
