"""Decisions in which a hardened name server and Apache RocketMQ 4.9.8 differ: one table, one line per decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.configuration.policy_choice import with_chosen
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.pause_guard import NoGuard, PauseGuard
from staticfire.system_under_test.name_server.rules import (
    IsOutdated,
    Leaves,
    SlaveTopics,
    ignore_unknown,
    leaves_any_place,
    leaves_own_place,
    never_outdated,
    no_topics,
    older_connection,
    readable_topics,
    refuse_unknown,
    running_time_ns,
    wall_time_ns,
)
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.runtime.env import Clock, Storage
from staticfire.system_under_test.store.metadata_file import MetadataFile, UnsafeMetadataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerPolicies:
    """Decisions of a name server; comments say what RocketMQ does."""

    slave_topics: SlaveTopics  # restarted name servers do not have the topics of a lost master
    leaves: Leaves  # R32: an old master that stops removes the new one's address
    # After a pause, an older registration replaces a newer one of the same broker.
    is_outdated: IsOutdated
    # A name server expires every broker after its own pause.
    pause_guard: Callable[[int], PauseGuard | NoGuard]
    silence_clock_ns: Callable[[Clock], int]  # a step of the wall clock can expire every broker
    answer_unknown: Callable[[RemotingCommand], RemotingCommand | None]
    metadata_file: Callable[[Storage, str], MetadataFile]  # a power cut empties kvConfig.json


NAME_SERVER_POLICIES = {
    Mode.HARDENED: NameServerPolicies(
        slave_topics=readable_topics,
        leaves=leaves_own_place,
        is_outdated=older_connection,
        pause_guard=PauseGuard,
        silence_clock_ns=running_time_ns,
        answer_unknown=refuse_unknown,
        metadata_file=MetadataFile,
    ),
    Mode.FAITHFUL: NameServerPolicies(
        slave_topics=no_topics,
        leaves=leaves_any_place,
        is_outdated=never_outdated,
        pause_guard=NoGuard,
        silence_clock_ns=wall_time_ns,
        answer_unknown=ignore_unknown,
        metadata_file=UnsafeMetadataFile,
    ),
}


def name_server_policies(config: NameServerConfig) -> NameServerPolicies:
    """Like `broker_policies`. Raises ValueError for an unknown name."""
    if config.faithful_policies and config.mode is Mode.FAITHFUL:
        table = NAME_SERVER_POLICIES
        return with_chosen(table[Mode.HARDENED], table[Mode.FAITHFUL], config.faithful_policies)
    return NAME_SERVER_POLICIES[config.mode]
