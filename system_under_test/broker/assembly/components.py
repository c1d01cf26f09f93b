"""Builds the components of one broker and connects them. `broker` starts and stops them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from staticfire.system_under_test.broker.administration.acl_requests import (
    WATCH_INTERVAL_S,
    AccessControl,
)
from staticfire.system_under_test.broker.administration.administration import Administration
from staticfire.system_under_test.broker.administration.figures import (
    delay_figures,
    flow_figures,
    table_figures,
)
from staticfire.system_under_test.broker.append_pipeline.log_engine import LogEngine
from staticfire.system_under_test.broker.append_pipeline.store_config import make_store_config
from staticfire.system_under_test.broker.assembly.listeners import Listeners
from staticfire.system_under_test.broker.assembly.peers import Peers
from staticfire.system_under_test.broker.assembly.processors import Processors
from staticfire.system_under_test.broker.clients.client_requests import notify_consumers_changed
from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.flow_control.request_classes import RequestClass
from staticfire.system_under_test.broker.metadata.metadata_tables import load_files, make_tables
from staticfire.system_under_test.broker.metadata.topics import TopicChange
from staticfire.system_under_test.broker.periodic import Schedule
from staticfire.system_under_test.broker.policies.policies import broker_policies
from staticfire.system_under_test.broker.pulling.pull_filters import PullFilters, QueueBits
from staticfire.system_under_test.broker.queries.hidden_messages import HiddenMessages
from staticfire.system_under_test.broker.registration.known_answers import answered_once_known
from staticfire.system_under_test.broker.replication.catch_up import CatchUpMark, MasterCatchUp
from staticfire.system_under_test.remoting import TurnOutput
from staticfire.system_under_test.remoting.turn_share import TurnShare
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.metadata_file import MetadataFile

CLIENT_SCAN_INTERVAL_S = 10.0  # RocketMQ: ClientHousekeepingService
FILTERS_INTERVAL_S = 10.0  # RocketMQ, BrokerController: consumerFilterManager.persist


class Components:
    """The parts of a broker.

    Args:
        accepts_sends: whether this is a master that has everything its replicas have.
        on_failure: called when a write or an fsync has failed: the broker must not promise anything any more.
        on_caught_up: called when the log holds everything that replicas have.
    """

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        *,
        accepts_sends: Callable[[], bool],
        on_failure: Callable[[Exception], None],
        on_caught_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._env = env
        self._config = config
        policies = self.policies = broker_policies(config)
        self.store = MessageStore(
            env.storage, env.clock, env.log, make_store_config(config), policy=policies.store
        )
        self.hidden = HiddenMessages(
            self._metadata_file("hiddenMessages.json"), self.store.retention.queues
        )
        self.tables = make_tables(
            config,
            env.clock,
            policies.offsets(),
            self._metadata_file,
            on_topic_change=self._topics_changed,
            before_delete=self.hidden.note,
            queued_end=lambda: self.store.dispatched_offset,
        )
        turn_output = TurnOutput(TurnShare(is_shared=env.shares_turns))
        self.clients = Clients(
            now_ns=env.clock.monotonic_ns,
            notify=notify_consumers_changed,
            may_notify=self.tables.groups.is_notified_of_changes,
            notifies_of_expired_members=policies.admin.notifies_of_expired_members,
            keeps_shared_client_ids=policies.keeps_shared_client_ids,
            on_empty=self.tables.filters.unregister,
            share=turn_output.share,
        )
        pull_filters = PullFilters(
            config, self.tables.groups, self.clients, self.tables.filters, policies.filters
        )
        self.store.extend_with(
            QueueBits(config, self.tables.filters, self.store.record_of_entry).of_message
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
            self.tables.filters,
            pull_filters,
        )
        self.engine = LogEngine(
            env,
            config,
            policies,
            self.store,
            self.administration.rates.put_times,
            turn_output,
            on_failure=on_failure,
            on_peer_heard=lambda peer: self.catch_up.peer_heard(peer),
            on_caught_up=on_caught_up,
        )
        self.access = AccessControl(env, config, policies.acl, self.store)
        self.neighbours = Peers(
            env,
            config,
            policies.registration,
            self.tables,
            self.store,
            living_queues=self.hidden.living_queues,
            on_master=self.engine.ha.set_master_address,
            on_topics=self.hidden.adopt_from,
            on_restored_topics=self.hidden.restore_from,
        )
        self.catch_up = MasterCatchUp(
            config,
            CatchUpMark(self._metadata_file("catchUp.json")),
            self.neighbours.restore,
            self.store,
            self.tables,
            env.log,
            living_queues=self.hidden.living_queues,
        )
        self.processors = Processors(
            env,
            config,
            policies.services,
            store=self.store,
            tables=self.tables,
            clients=self.clients,
            pull_filters=pull_filters,
            administration=self.administration,
            progress=self.engine.progress,
            repair=self.neighbours.repair,
            pulls_wait=lambda: bool(self.engine.flow.queues[RequestClass.PULL]),
            is_ready=accepts_sends,
            share=self.engine.turn_output.share,
        )
        self.engine.progress.on_visible = self.processors.pull.messages_arrived
        self.neighbours.repair.on_damage = self.processors.services.note_damage
        self.neighbours.repair.on_settled = self._record_settled
        self.cleaning = self.engine.make_cleaning(
            is_topic=self.tables.topics.is_used,
            is_ready=accepts_sends,
            least_committed=self.processors.services.least_read,
        )
        self.handlers = answered_once_known(
            self.processors.handlers(self.engine.ha)
            | self.access.handlers()
            | self.cleaning.handlers(),
            self.neighbours.registration,
        )
        self.engine.flow.set_handlers(self.handlers)
        self.administration.live_config.on_change += [
            self.engine.options_changed,
            self.processors.options_changed,
            self.neighbours.registration.options_changed,
        ]
        self.administration.figures += [
            self.engine.progress.commits.figures,
            lambda: flow_figures(self.engine.flow, env.clock.monotonic_ns),
            lambda: delay_figures(self.processors.services.delay_offsets(), self.store),
            lambda: table_figures(
                {
                    "heldPulls": self.processors.pull.held_count,
                    "queueLocks": self.administration.locks.__len__,
                    "consumers": self.clients.consumer_count,
                    "producers": self.clients.producer_count,
                    "endedHalfMessages": self.processors.services.ended_half_count,
                    "consumerOffsets": self.tables.offsets.count,
                }
            ),
        ]
        self.administration.of_topics.append(self.hidden.add_to)
        self.listeners = Listeners(
            env,
            config,
            self.access.guarded(self.engine.flow.handle),
            on_close=self.clients.connection_closed,
            turn_output=self.engine.turn_output,
        )

    def _metadata_file(self, name: str) -> MetadataFile:
        return self.policies.metadata_file(
            self._env.storage, f"{self._config.store_path}/config/{name}"
        )

    def _record_settled(self, physical_offset: int, is_lost: bool) -> None:
        """A damaged record is repaired or lost: consumers may go on."""
        self.processors.services.note_settled(physical_offset, is_lost=is_lost)
        self.processors.pull.check_held()

    def _topics_changed(self, change: TopicChange) -> None:
        self.neighbours.registration.topics_changed(change)
        if change.deleted:
            self.hidden.apply()
            self.cleaning.clean_now()

    def load_metadata(self) -> None:
        """Read the files in `config`. Raises StoreError."""
        load_files(
            self._env.storage,
            f"{self._config.store_path}/config",
            {
                "open catch-up": self.catch_up.load,
                "topics": self.tables.topics.load,
                "hidden messages": self.hidden.load,
                "subscription groups": self.tables.groups.load,
                "consumer offsets": self.tables.offsets_file.load,
                "consumer filters": self.tables.filters_file.load,
                "delay offsets": self.processors.services.load,
            },
        )

    def schedule(self, schedule: Schedule) -> None:
        """Schedule the periodic jobs of all components."""
        config = self._config
        if config.acl_enable:
            schedule.call("accounts", WATCH_INTERVAL_S, self.access.reload)
        pull = self.processors.pull
        schedule.call_after("held pulls", lambda: pull.hold_check_interval_s, pull.check_held)
        schedule.call("client scan", CLIENT_SCAN_INTERVAL_S, self.clients.expire)
        self.administration.start(schedule)
        self.cleaning.schedule(schedule)
        self.engine.schedule(schedule)
        interval_s = config.offset_flush_interval_s
        schedule.await_job(
            "consumer offsets", interval_s, self.tables.offsets_file.save, first_s=interval_s
        )
        schedule.await_job(
            "consumer filters",
            FILTERS_INTERVAL_S,
            self.tables.filters_file.save,
            first_s=FILTERS_INTERVAL_S,
        )
        self.processors.services.start_jobs(schedule)
        self.neighbours.schedule(schedule)
