"""Decisions of a name server that Apache RocketMQ 4.9.8 takes otherwise: the functions of its policy table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from staticfire.system_under_test.protocol.bodies import QueueData, TopicConfig
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting.connection import not_supported
from staticfire.system_under_test.runtime.env import Clock

PERMISSION_WRITE = 2  # RocketMQ, PermName.PERM_WRITE

# Which topics of a slave count while no master of its name is known.
# Arguments: its broker name, its topics, the queues known so far by topic and broker name.
SlaveTopics = Callable[
    [str, dict[str, TopicConfig], Mapping[str, Mapping[str, QueueData]]], dict[str, TopicConfig]
]
# Whether a broker that leaves takes its id along. Arguments: the address that has the id, the address that leaves.
Leaves = Callable[[str | None, str], bool]
# Whether what a broker says is out of date. Arguments: the connection on which its address registered last, None if
# that one has ended; the connection on which it speaks. Connections are numbered as they were accepted.
IsOutdated = Callable[[int | None, int], bool]


def readable_topics(
    broker_name: str,
    topics: dict[str, TopicConfig],
    known: Mapping[str, Mapping[str, QueueData]],
) -> dict[str, TopicConfig]:
    """Topics that no master has registered, as read-only: a name server started after the master's end has no others.

    RocketMQ 5.x does so (isPrimeSlave). And queues that the master got while we could not be reached: its slave has
    their messages, and no consumer would read them.
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
    """Nothing: topics come from masters only (RocketMQ, RouteInfoManager.registerBroker)."""
    return {}


def leaves_own_place(stored: str | None, leaving: str) -> bool:
    """Only if the id still has its address: an old master that stops late must not take the new one along."""
    return stored == leaving


def leaves_any_place(_stored: str | None, _leaving: str) -> bool:
    """Whatever address the id has by now (RocketMQ, RouteInfoManager.unregisterBroker; issue 5374)."""
    return True


def older_connection(last: int | None, speaking: int) -> bool:
    """A request of an abandoned connection, which a frozen name server reads late, is older than what it knows."""
    return last is not None and speaking < last


def never_outdated(_last: int | None, _speaking: int) -> bool:
    """What is read last counts (RocketMQ, RouteInfoManager.isBrokerTopicConfigChanged: any other version is news)."""
    return False


def running_time_ns(clock: Clock) -> int:
    """Silence is measured by a clock that never steps."""
    return clock.monotonic_ns()


def wall_time_ns(clock: Clock) -> int:
    """Silence is measured by the wall clock (RocketMQ: System.currentTimeMillis), so a step can expire every broker."""
    return clock.wall_ms() * 1_000_000


def refuse_unknown(request: RemotingCommand) -> RemotingCommand | None:
    """Code 3: the caller knows at once."""
    return not_supported(request)


def ignore_unknown(_request: RemotingCommand) -> RemotingCommand | None:
    """No answer: the caller waits for its timeout (RocketMQ, DefaultRequestProcessor returns null)."""
    return None
