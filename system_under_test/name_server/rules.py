"""The functions of a name server's policy table: decisions that Apache RocketMQ 4.9.8 takes differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from staticfire.system_under_test.protocol.bodies import QueueData, TopicConfig
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting.connection import not_supported
from staticfire.system_under_test.runtime.env import Clock

PERMISSION_WRITE = 2  # RocketMQ, PermName.PERM_WRITE

# (broker name of a slave, its topics, known queues by topic and broker name) -> its topics that count while no master
# of its name is registered.
SlaveTopics = Callable[
    [str, dict[str, TopicConfig], Mapping[str, Mapping[str, QueueData]]], dict[str, TopicConfig]
]
# (address that has the broker id, address that unregisters) -> whether that frees the broker id.
Leaves = Callable[[str | None, str], bool]
# (key of the connection of the broker's last registration, None if it has ended; key of the connection of a request) ->
# whether the request is outdated. Keys are in the order in which connections were accepted.
IsOutdated = Callable[[int | None, int], bool]


def readable_topics(
    broker_name: str,
    topics: dict[str, TopicConfig],
    known: Mapping[str, Mapping[str, QueueData]],
) -> dict[str, TopicConfig]:
    """Topics that no master has registered, as read-only: a name server started after the master's end has only these.

    RocketMQ 5.x does so (isPrimeSlave). Also queues that the master got while we could not be reached: its slave has
    their messages, which no consumer would read otherwise.
    """
    found = {}
    for topic, config in topics.items():
        known_config = known.get(topic, {}).get(broker_name)
        if known_config is None or known_config.read_queue_nums < config.read_queue_nums:
            found[topic] = replace(config, perm=config.perm & ~PERMISSION_WRITE)
    return found


def no_topics(
    _broker_name: str,
    _topics: dict[str, TopicConfig],
    _known: Mapping[str, Mapping[str, QueueData]],
) -> dict[str, TopicConfig]:
    """No topics: only masters register topics (RocketMQ, RouteInfoManager.registerBroker)."""
    return {}


def leaves_own_place(stored: str | None, leaving: str) -> bool:
    """Only if the id still has its address: an old master that stops late must not remove the new one."""
    return stored == leaving


def leaves_any_place(_stored: str | None, _leaving: str) -> bool:
    """Always, whichever address has the id by now (RocketMQ, RouteInfoManager.unregisterBroker; issue 5374)."""
    return True


def older_connection(last: int | None, speaking: int) -> bool:
    """A request on an abandoned connection, which a name server reads late after a pause, is outdated."""
    return last is not None and speaking < last


def never_outdated(_last: int | None, _speaking: int) -> bool:
    """Never: the last request read counts (RocketMQ, isBrokerTopicConfigChanged: any other version is new)."""
    return False


def running_time_ns(clock: Clock) -> int:
    """Measure silence by the monotonic clock."""
    return clock.monotonic_ns()


def wall_time_ns(clock: Clock) -> int:
    """Measure silence by the wall clock (RocketMQ: System.currentTimeMillis): a step can expire every broker."""
    return clock.wall_ms() * 1_000_000


def refuse_unknown(request: RemotingCommand) -> RemotingCommand | None:
    """Answer with code 3, so that the caller need not wait."""
    return not_supported(request)


def ignore_unknown(_request: RemotingCommand) -> RemotingCommand | None:
    """Do not answer: the caller waits for its timeout (RocketMQ, DefaultRequestProcessor returns null)."""
    return None
