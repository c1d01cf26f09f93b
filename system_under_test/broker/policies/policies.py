"""Decisions in which a hardened broker and Apache RocketMQ 4.9.8 differ: one table, one line per decision.

A policy is a function, a small object or a number that a component gets and uses without knowing the mode.
This table alone decides how a mode behaves; `tests/system_under_test/broker/policies/test_policies.py`
shows the effect of each line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from staticfire.system_under_test.acl.guard import AclPolicy
from staticfire.system_under_test.acl.permissions import (
    ADMIN_CODES,
    ADMIN_CODES_OF_ROCKETMQ,
    needs_in_rocketmq,
    needs_of,
)
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.broker.delivery.delayed_delivery import (
    at_once_if_too_far,
    never_early,
)
from staticfire.system_under_test.broker.delivery.message_services import ServicePolicies
from staticfire.system_under_test.broker.delivery.send_back import queues_of_group, queues_of_topic
from staticfire.system_under_test.broker.delivery.transaction_policy import (
    FAITHFUL_TRANSACTIONS,
    HARDENED_TRANSACTIONS,
)
from staticfire.system_under_test.broker.metadata.offsets import (
    ConsumerOffsets,
    RacingOffsets,
    keep_beyond,
)
from staticfire.system_under_test.broker.policies.admin_policy import (
    AdminPolicy,
    lowest_offsets,
    lowest_offsets_forgetting,
)
from staticfire.system_under_test.broker.pulling.pull_filters import (
    FilterPolicy,
    born_before,
    tested_since,
)
from staticfire.system_under_test.broker.registration.name_server_calls import (
    KeepsRegistered,
    RegistrationEvents,
)
from staticfire.system_under_test.broker.registration.registration import Registration
from staticfire.system_under_test.broker.registration.rounds import RegistrationRounds
from staticfire.system_under_test.broker.sending.internal_copies import (
    CopyPolicy,
    reported_status,
    weak_is_success,
)
from staticfire.system_under_test.broker.sending.visibility import (
    Log,
    Replicas,
    safe_end,
    written_end,
)
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.configuration.policy_choice import with_chosen
from staticfire.system_under_test.protocol.bodies import TopicConfigTable
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Log as EnvLog
from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.assembly.store_policy import (
    HARDENED_STORE,
    StorePolicy,
    make_rereading_dispatcher,
    only_full_files,
    sync_ignoring_errors,
)
from staticfire.system_under_test.store.health import FaithfulHealth
from staticfire.system_under_test.store.index.java_index_recovery import JavaIndexRecovery
from staticfire.system_under_test.store.index.key_search import JAVA_SEARCH
from staticfire.system_under_test.store.mapped_file import MappedFileQueue
from staticfire.system_under_test.store.metadata_file import MetadataFile, UnsafeMetadataFile
from staticfire.system_under_test.store.reading.time_search import nearest_in_file
from staticfire.system_under_test.store.replication.faithful_receiver import FaithfulReceiver
from staticfire.system_under_test.store.replication.replica_receiver import ReplicaReceiver
from staticfire.system_under_test.store.replication.replication_policy import (
    ReplicationPolicy,
    from_first_file,
    from_last_file,
)
from staticfire.system_under_test.store.retention.retention import (
    ForceRule,
    force_regardless_of_consumption,
    only_consumed,
)

RegistrationKind = Callable[
    [BrokerConfig, RemotingClient, Callable[[], TopicConfigTable], EnvLog, RegistrationEvents],
    KeepsRegistered,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPolicies:
    """Decisions of a broker and its store; comments say what RocketMQ does."""

    visible_end: Callable[[Log, Replicas, BrokerRole], int]  # R03: consumers see unflushed messages
    may_force: ForceRule  # R45: deletes fresh, unconsumed messages when a disk is 85 % full
    full_disk_look_s: float  # refuses sends for up to 10 s after a full disk has space again
    # R02, R12, R37, and 5 s without a report after a slave has connected
    replication: ReplicationPolicy
    store: StorePolicy  # R01, R04, R14, R60, failed writes, a full disk that ends dispatch for good
    metadata_file: Callable[
        [Storage, str], MetadataFile
    ]  # R15: a power cut empties offsets or topics
    services: ServicePolicies  # R26, R27, R36, R48, R61: delays, retries, transactions
    offsets: type[ConsumerOffsets]  # R16: two first commits of a group
    # R03: keeps committed offsets beyond messages that a power cut has erased
    clamp_offsets: Callable[[ConsumerOffsets, Callable[[str, int], int]], list[str]]
    # Delivers everything to a pull with an invalid expression; bits of another filter may hide messages.
    filters: FilterPolicy
    registration: RegistrationKind  # a hung name server delays registration with the others
    # Forgets a client that has connected again when its former connection ends: no reply reaches it any more.
    keeps_shared_client_ids: bool
    admin: AdminPolicy  # see admin_policy
    acl: AclPolicy  # lets an account make itself an administrator


HARDENED_REPLICATION = ReplicationPolicy(
    start_of_new_replica=from_first_file,
    make_receiver=lambda log, sync_flush: ReplicaReceiver(log, flushed_only=sync_flush),
    believes_requests=False,
    sends_unflushed=False,
    counts_from_accept=False,
    reports_at_once=True,
    waits_for_lost_slaves=False,
    fetches_missing=True,
)
FAITHFUL_REPLICATION = ReplicationPolicy(
    start_of_new_replica=from_last_file,
    make_receiver=lambda log, _sync_flush: FaithfulReceiver(log),
    believes_requests=True,
    sends_unflushed=True,
    counts_from_accept=True,
    reports_at_once=False,
    waits_for_lost_slaves=True,
    fetches_missing=False,
)
FAITHFUL_STORE = StorePolicy(
    sync=sync_ignoring_errors,
    health=FaithfulHealth,
    cut_log=MappedFileQueue.remove_from,
    keeps_room_for_entries=False,
    dispatcher=make_rereading_dispatcher,
    key_search=JAVA_SEARCH,
    time_search=nearest_in_file,
    synced_index=only_full_files,
    index_recovery=JavaIndexRecovery,
    believes_page_cache=True,
    keeps_damaged=False,
    wants_whole_files=True,
)
HARDENED_ADMIN = AdminPolicy(
    lowest_offsets=lowest_offsets,
    clones_all_topics=True,
    ignores_bad_options=False,
    notifies_of_expired_members=True,
)
FAITHFUL_ADMIN = AdminPolicy(
    lowest_offsets=lowest_offsets_forgetting,
    clones_all_topics=False,
    ignores_bad_options=True,
    notifies_of_expired_members=False,
)

HARDENED_SERVICES = ServicePolicies(
    copies=CopyPolicy(waits=True, requester_code=reported_status, safe_end=safe_end),
    remaining_time=never_early,
    retry_queues=queues_of_topic,
    transactions=HARDENED_TRANSACTIONS,
)
FAITHFUL_SERVICES = ServicePolicies(
    copies=CopyPolicy(waits=False, requester_code=weak_is_success, safe_end=written_end),
    remaining_time=at_once_if_too_far,
    retry_queues=queues_of_group,
    transactions=FAITHFUL_TRANSACTIONS,
)

BROKER_POLICIES = {
    Mode.HARDENED: BrokerPolicies(
        visible_end=safe_end,
        may_force=only_consumed,
        full_disk_look_s=1.0,
        store=HARDENED_STORE,
        metadata_file=MetadataFile,
        replication=HARDENED_REPLICATION,
        services=HARDENED_SERVICES,
        keeps_shared_client_ids=True,
        filters=FilterPolicy(refuses_unparsable=True, trusts_bits=tested_since),
        registration=Registration,
        acl=AclPolicy(admin_codes=ADMIN_CODES, needs_of=needs_of, forgives_unique_key=True),
        offsets=ConsumerOffsets,
        clamp_offsets=ConsumerOffsets.clamp,
        admin=HARDENED_ADMIN,
    ),
    Mode.FAITHFUL: BrokerPolicies(
        visible_end=written_end,
        store=FAITHFUL_STORE,
        metadata_file=UnsafeMetadataFile,
        replication=FAITHFUL_REPLICATION,
        services=FAITHFUL_SERVICES,
        keeps_shared_client_ids=False,
        filters=FilterPolicy(refuses_unparsable=False, trusts_bits=born_before),
        registration=RegistrationRounds,
        acl=AclPolicy(
            admin_codes=ADMIN_CODES_OF_ROCKETMQ,
            needs_of=needs_in_rocketmq,
            forgives_unique_key=False,
        ),
        offsets=RacingOffsets,
        clamp_offsets=keep_beyond,
        admin=FAITHFUL_ADMIN,
        may_force=force_regardless_of_consumption,
        full_disk_look_s=10.0,
    ),
}


def broker_policies(config: BrokerConfig) -> BrokerPolicies:
    """The policies of the config's mode; with `faithful_policies`, the hardened ones except for these.

    Raises ValueError for an unknown name.
    """
    if config.faithful_policies and config.mode is Mode.FAITHFUL:
        table = BROKER_POLICIES
        return with_chosen(table[Mode.HARDENED], table[Mode.FAITHFUL], config.faithful_policies)
    return BROKER_POLICIES[config.mode]
