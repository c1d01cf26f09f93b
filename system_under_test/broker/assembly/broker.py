"""One broker: opens, starts and stops its components, and ends when one of them fails (RocketMQ, BrokerController)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from staticfire.system_under_test.broker.append_pipeline.flush import StoreFailed
from staticfire.system_under_test.broker.assembly.components import Components
from staticfire.system_under_test.broker.assembly.request_table import refuse_while_restoring
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.periodic import Schedule
from staticfire.system_under_test.remoting import CannotListen
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.errors import StoreError

REGISTERED_TIMEOUT_S = 1.0  # a dead name server must not delay the start


class Broker:
    """One broker on one store: `open`, `start`, then driven by events until `stop`."""

    def __init__(self, env: Env, config: BrokerConfig) -> None:
        self._env = env
        self._config = config
        self._accepts_sends = False
        self.failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._parts = Components(
            env,
            config,
            accepts_sends=self.accepts_sends,
            on_failure=self._failed,
            on_caught_up=self._caught_up,
        )
        self.store = self._parts.store
        self.administration = self._parts.administration
        self.ha = self._parts.engine.ha
        self.flow = self._parts.engine.flow
        self._progress = self._parts.engine.progress
        self._services = self._parts.processors.services
        self._schedule = Schedule(env.log)
        self._registers = asyncio.Event()
        self._damaged: tuple[int, ...] = ()  # records that recovery found damaged

    # Life

    def open(self) -> None:
        """Recover the store and load the metadata.

        Raises StoreError, with one sentence, if they cannot be opened; then nothing stays open.
        """
        self._parts.access.load()
        report = self._parts.engine.open()
        self._damaged = report.damaged
        try:
            self._parts.load_metadata()
        except StoreError:
            with suppress(OSError):
                self.store.close()
            raise
        if self._parts.policies.replication.fetches_missing:
            self._parts.catch_up.begin(clean=report.clean, cut_bytes=report.cut_bytes)

    async def start(self) -> None:
        """Serve, replicate and register. Raises CannotListen; the caller must then still call `stop`.

        An empty master that may restore its metadata from its slaves registers only afterwards: until then clients read
        from the slaves, instead of being answered that a topic, group or offset does not exist.
        """
        restores = self._parts.catch_up.restores_metadata
        if restores:
            self.flow.set_handlers(refuse_while_restoring(self._parts.handlers))
        await self._parts.listeners.start()
        await self.ha.start(catch_up=self._parts.catch_up.is_needed)
        if not restores:
            self._register()
        self._parts.schedule(self._schedule)
        for offset in self._damaged:
            self._parts.neighbours.repair.damaged(offset)
        self._env.log.info("broker started", address=self._config.address, ready=self.ha.ready)

    def _register(self) -> None:
        self._parts.neighbours.registration.start()
        self._registers.set()

    async def until_registered(self) -> None:
        """Return after the first registration, or after REGISTERED_TIMEOUT_S."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REGISTERED_TIMEOUT_S):
                await self._registers.wait()
                await self._parts.neighbours.registration.tried.wait()

    async def stop(self) -> None:
        """Stop gracefully: all stored messages are durable, and the next start needs no recovery.

        Raises StoreFailed after everything has stopped if something could not be written, such as on a full disk.
        """
        self._accepts_sends = False
        self.flow.stop()
        await self._schedule.stop()
        self._services.stop()
        await self._progress.drain_log()
        self._progress.stop_answering()
        await self._parts.listeners.stop()
        await self.ha.stop()
        await self._progress.drain_queues()
        self._parts.tables.offsets.changed = True
        unsaved = [
            await _unsaved("delay offsets", self._services.save),
            await _unsaved("consumer offsets", self._parts.tables.offsets_file.save),
            await _unsaved("consumer filters", self._parts.tables.filters_file.save),
        ]
        await self._parts.neighbours.stop()
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
        """The log holds everything that replicas have: accept sends from here on."""
        await self._progress.drain_log()
        await self._progress.dispatch_all()
        if self._config.is_slave:  # a slave's queues always lag behind the master's offsets
            return
        if await self._parts.catch_up.end():
            self.flow.set_handlers(self._parts.handlers)
            self._register()
        self._parts.hidden.settle()
        for clamped in self._parts.policies.clamp_offsets(
            self._parts.tables.offsets, self._parts.engine.queue_end
        ):
            self._env.log.warning("consumer offset was beyond its queue", offset=clamped)
        self._services.begin()
        self._accepts_sends = True

    # Requests

    def accepts_sends(self) -> bool:
        """Whether this is a master that has everything its replicas have; until then it answers sends with 14."""
        return self._accepts_sends

    # Events

    def _failed(self, error: Exception) -> None:
        """Fail-stop: accept nothing any more, and let `main` end the process."""
        self._accepts_sends = False
        if not self.failure.done():
            self.failure.set_result(error)


async def _unsaved(name: str, save: Callable[[], Awaitable[None]]) -> str:
    """Save at shutdown; return the reason of a failure, or ""."""
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
        StoreFailed: a write or an fsync failed; the store stays as it is, for recovery at the next start.
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
