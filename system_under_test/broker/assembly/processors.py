"""Composes the processors of client requests, and maps requests to them."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.broker.administration.administration import Administration
from staticfire.system_under_test.broker.append_pipeline.append_pipeline import AppendPipeline
from staticfire.system_under_test.broker.assembly.request_table import make_handlers
from staticfire.system_under_test.broker.clients.client_requests import ClientRequests
from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.delivery.message_services import (
    MessageServices,
    ServicePolicies,
)
from staticfire.system_under_test.broker.metadata.metadata_tables import MetadataTables
from staticfire.system_under_test.broker.metadata.offset_commits import OffsetCommits
from staticfire.system_under_test.broker.pulling.held_pulls import HeldPulls
from staticfire.system_under_test.broker.pulling.overtaken_pulls import OvertakenPulls
from staticfire.system_under_test.broker.pulling.pull import PullProcessor
from staticfire.system_under_test.broker.pulling.pull_filters import PullFilters
from staticfire.system_under_test.broker.pulling.pull_reports import PullReports
from staticfire.system_under_test.broker.queries.message_queries import MessageQueries
from staticfire.system_under_test.broker.queries.queue_queries import QueueQueries
from staticfire.system_under_test.broker.replication.ha import HaService
from staticfire.system_under_test.broker.replication.ha_requests import HaRequests
from staticfire.system_under_test.broker.replication.record_repair import RecordRepair
from staticfire.system_under_test.broker.sending.internal_copies import InternalCopies
from staticfire.system_under_test.broker.sending.send import SendProcessor
from staticfire.system_under_test.remoting import Handler
from staticfire.system_under_test.remoting.turn_share import TurnShare
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.assembly.message_store import MessageStore


class Processors:
    """The processors of one broker and the services behind them.

    `is_ready`: whether sends are accepted. `share`: how much of this loop turn the node's requests have used.
    """

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        policies: ServicePolicies,
        *,
        store: MessageStore,
        tables: MetadataTables,
        clients: Clients,
        pull_filters: PullFilters,
        administration: Administration,
        progress: AppendPipeline,
        repair: RecordRepair,
        pulls_wait: Callable[[], bool],
        is_ready: Callable[[], bool],
        share: TurnShare,
    ) -> None:
        self._env = env
        self._config = config
        self._store = store
        self._tables = tables
        self._clients = clients
        self._administration = administration
        self._progress = progress
        self._is_ready = is_ready
        self._repair = repair
        copies = InternalCopies(
            store,
            policies.copies,
            administration.statistics,
            acknowledge=progress.acknowledge,
            safe_end=progress.copies_safe_end,
            on_refusal=progress.wake,
        )
        self._overtaken = OvertakenPulls(pulls_wait)
        self.pull = PullProcessor(
            config,
            store,
            tables.topics,
            tables.groups,
            pull_filters,
            tables.offsets,
            HeldPulls(),
            self._overtaken,
            is_ready=is_ready,
            now_ns=env.clock.monotonic_ns,
            reports=PullReports(
                config,
                administration.statistics,
                administration.rates,
                copies,
                is_ready=is_ready,
                now_ms=env.clock.wall_ms,
                now_ns=env.clock.monotonic_ns,
            ),
            share=share,
        )
        self.services = MessageServices(
            env,
            config,
            policies,
            store,
            tables.topics,
            tables.groups,
            clients,
            tables.offsets,
            copies,
            administration.statistics,
            tables.delay_offsets,
            is_ready=is_ready,
        )
        self._send = self._make_send(share)

    def handlers(self, ha: HaService) -> dict[int, Handler]:
        """Handlers by request code."""
        config, store, tables = self._config, self._store, self._tables
        is_slave = config.is_slave
        return make_handlers(
            self._send,
            self.pull,
            QueueQueries(
                config,
                store,
                tables.offsets,
                OffsetCommits(tables.offsets, tables.topics, tables.groups),
                self._overtaken,
            ),
            MessageQueries(config, store, self._repair),
            ClientRequests(
                self._clients, tables.topics, tables.groups, tables.filters, is_slave=is_slave
            ),
            self._administration.handlers(),
            HaRequests(ha.lift, is_slave=is_slave),
        ) | self.services.handlers(self._send)

    def options_changed(self) -> None:
        """Apply changed options of a running broker."""
        self._send.options_changed()

    def _make_send(self, share: TurnShare) -> SendProcessor:
        return SendProcessor(
            self._config,
            self._store,
            self._tables.topics,
            self._tables.groups,
            self._env.random,
            is_ready=self._is_ready,
            acknowledge=self._progress.acknowledge,
            on_refusal=self._progress.wake,
            redirection=self.services.redirection,
            statistics=self._administration.statistics,
            now_ms=self._env.clock.wall_ms,
            now_ns=self._env.clock.monotonic_ns,
            share=share,
        )
