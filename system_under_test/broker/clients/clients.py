"""Tracks the connected producer and consumer groups (RocketMQ, ConsumerManager, ProducerManager).

Membership is by connection. A member leaves by code 35, by the end of its connection, or after 120 s of silence; the
rest of its consumer group is notified with code 40 and rebalances at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.remoting.turn_share import TurnShare

CLIENT_EXPIRY_NS = 120_000_000_000  # RocketMQ: CHANNEL_EXPIRED_TIMEOUT
BROADCASTING = "BROADCASTING"
# RocketMQ has no limits.
GROUPS_MAX = 500  # groups of one connection
MEMBERS_MAX = 100_000  # members of all groups; a connection counts once in each of its groups
NS_PER_S = 1_000_000_000
NAME_LENGTH_MAX = 1_024  # characters of a client id, a group or a topic
SUBSCRIPTIONS_SIZE_MAX = 32 << 20  # bytes of all groups' subscriptions, by `size_of`
# Approximate bytes that a subscription, a tag or a tags code takes besides its characters.
ELEMENT_SIZE = 100


class Member:
    """One connection that is a member of a group.

    is_replaced: its client has sent a later heartbeat over another connection. This connection may then have ended
    without the broker having noticed, if the network swallowed its end.
    """

    __slots__ = ("client_id", "connection", "is_replaced", "language", "seen_at_ns", "version")

    def __init__(
        self, connection: Connection, client_id: str, *, language: int, version: int
    ) -> None:
        self.connection = connection
        self.client_id = client_id
        self.language = language
        self.version = version
        self.seen_at_ns = 0
        self.is_replaced = False


class ConsumerGroup:
    """Members and subscriptions of one group; `data` is that of the last heartbeat."""

    __slots__ = ("data", "members", "number", "size", "subscriptions")

    def __init__(self, data: ConsumerData, number: int = 0) -> None:
        """`number`: orders groups by their first heartbeat."""
        self.data = data
        self.number = number
        self.members: dict[int, Member] = {}  # by connection key
        self.subscriptions: dict[str, SubscriptionData] = {}  # by topic
        self.size = 0  # approximate bytes of the subscriptions

    @property
    def is_broadcasting(self) -> bool:
        return self.data.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        return [member.client_id for member in self.members.values()]

    def subscribe(self, data: ConsumerData) -> bool:
        """Apply the subscriptions of a heartbeat; return whether a topic was added or removed.

        Only a newer version replaces a known subscription: a late heartbeat must not bring an older filter back.
        """
        wanted = self._newest(data)
        changed = wanted.keys() != self.subscriptions.keys()
        self.size = self.size_with(data)
        self.data = data
        self.subscriptions = wanted
        return changed

    def _newest(self, data: ConsumerData) -> dict[str, SubscriptionData]:
        wanted = {subscription.topic: subscription for subscription in data.subscriptions}
        for topic, subscription in wanted.items():
            known = self.subscriptions.get(topic)
            if known is not None and known.sub_version >= subscription.sub_version:
                wanted[topic] = known
        return wanted

    def size_with(self, data: ConsumerData) -> int:
        """The value of `size` after `subscribe(data)`."""
        return size_of(data.subscriptions) + size_of(self._newest(data).values())


def size_of(subscriptions: Iterable[SubscriptionData]) -> int:
    """Approximate bytes that subscriptions take in memory."""
    return sum(
        ELEMENT_SIZE * (1 + len(one.tags_set) + len(one.code_set))
        + len(one.topic)
        + len(one.sub_string)
        + len(one.expression_type)
        + sum(map(len, one.tags_set))
        for one in subscriptions
    )


class Memberships:
    """The groups that one connection is in."""

    __slots__ = ("consumers", "producers")

    def __init__(self) -> None:
        self.producers: dict[str, None] = {}
        self.consumers: dict[str, ConsumerGroup] = {}

    def __len__(self) -> int:
        return len(self.producers) + len(self.consumers)


Notify = Callable[[str, Connection], None]


class Clients:
    """All groups of this broker.

    Args:
        notify: sends code 40 for a group to one member's connection.
        may_notify: whether a group wants to be notified of changes.
        notifies_of_expired_members: whether to notify the group when a silent member expires.
        keeps_shared_client_ids: whether the end of one connection leaves a client id to the others that registered it.
        on_empty: called with the name of a consumer group whose last member has left.
        share: how much of this loop turn the node's requests have used.
    """

    def __init__(
        self,
        *,
        now_ns: Callable[[], int],
        notify: Notify,
        may_notify: Callable[[str], bool] = lambda group: True,
        notifies_of_expired_members: bool = True,
        keeps_shared_client_ids: bool = True,
        on_empty: Callable[[str], None] = lambda group: None,
        share: TurnShare | None = None,
    ) -> None:
        self._share = TurnShare() if share is None else share
        # groups to be notified in a later turn; an ordered set
        self._unnotified: dict[str, None] = {}
        self._groups_so_far = 0
        self._now_ns = now_ns
        self._on_empty = on_empty
        self._notify = notify
        self._may_notify = may_notify
        self._notifies_of_expired_members = notifies_of_expired_members
        self._keeps_shared_client_ids = keeps_shared_client_ids
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[int, Member]] = {}
        self._producer_connections: dict[str, Connection] = {}  # by client id
        self._memberships: dict[int, Memberships] = {}  # by connection key
        self._members = 0  # of all groups
        self._subscriptions_size = 0  # of all groups

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        return self._consumers.get(group)

    def producer_connection(self, client_id: str) -> Connection | None:
        """A connection of the producer with this client id (RocketMQ, ProducerManager.findChannel)."""
        connection = self._producer_connections.get(client_id)
        return None if connection is None or connection.closed else connection

    def groups_of(self, topic: str) -> list[str]:
        """Consumer groups that subscribe to a topic now."""
        return [name for name, group in self._consumers.items() if topic in group.subscriptions]

    def producer_groups(self) -> list[str]:
        return list(self._producers)

    def consumer_count(self) -> int:
        """The number of members of all consumer groups."""
        return sum(len(group.members) for group in self._consumers.values())

    def producer_count(self) -> int:
        """The number of members of all producer groups."""
        return sum(map(len, self._producers.values()))

    def producers(self, group: str) -> list[Member]:
        return list(self._producers.get(group, {}).values())

    def check(self, connection: Connection, heartbeat: HeartbeatData) -> None:
        """Raises ValueError if this heartbeat would make the tables too large."""
        key = connection.key
        producers = set(heartbeat.producer_groups)
        consumers = {data.group_name for data in heartbeat.consumers}
        names = [heartbeat.client_id, *heartbeat.producer_groups]
        for data in heartbeat.consumers:
            names += [data.group_name, *(one.topic for one in data.subscriptions)]
        longest = max(map(len, names))
        if longest > NAME_LENGTH_MAX:
            raise ValueError(
                f"a name in the heartbeat has {longest} characters; allowed: up to {NAME_LENGTH_MAX}"
            )
        new = sum(key not in self._producers.get(name, {}) for name in producers)
        new += sum(not self._consumes(key, name) for name in consumers)
        groups = len(self._memberships.get(key, ())) + new
        if groups > GROUPS_MAX:
            raise ValueError(
                f"the client would be in {groups} groups; allowed: up to {GROUPS_MAX} a connection"
            )
        if new and self._members + new > MEMBERS_MAX:
            raise ValueError(
                f"all groups would have {self._members + new} members; allowed: up to {MEMBERS_MAX}"
            )
        self._check_size(heartbeat.consumers)

    def _check_size(self, consumers: Iterable[ConsumerData]) -> None:
        """Raises ValueError if the subscriptions of these groups would take too much memory."""
        grown = 0
        for data in consumers:
            group = self._consumers.get(data.group_name) or ConsumerGroup(data)
            grown += max(0, group.size_with(data) - group.size)
        size = self._subscriptions_size + grown
        if grown and size > SUBSCRIPTIONS_SIZE_MAX:
            raise ValueError(
                f"the subscriptions of all groups would take {size} bytes;"
                f" allowed: up to {SUBSCRIPTIONS_SIZE_MAX}"
            )

    def _consumes(self, key: int, group: str) -> bool:
        known = self._consumers.get(group)
        return known is not None and key in known.members

    def heartbeat(
        self, connection: Connection, heartbeat: HeartbeatData, *, language: int, version: int
    ) -> None:
        """Register or refresh everything that one heartbeat lists; notify groups that changed."""

        mine = self._memberships.setdefault(connection.key, Memberships())

        def enter(members: dict[int, Member]) -> bool:
            known = members.get(connection.key)
            if known is None or known.client_id != heartbeat.client_id:
                members[connection.key] = Member(
                    connection, heartbeat.client_id, language=language, version=version
                )
            members[connection.key].seen_at_ns = self._now_ns()
            members[connection.key].is_replaced = False
            if known is None:
                self._members += 1
            return known is None

        former = self._producer_connections.get(heartbeat.client_id)
        for producer_group in heartbeat.producer_groups:
            members = self._producers.setdefault(producer_group, {})
            known = members.get(connection.key)
            if known is not None and known.client_id != heartbeat.client_id:
                self._forget_producer_id(known)
            if former is not None and former.key in members:
                members[former.key].is_replaced = True
            is_new = enter(members)
            mine.producers[producer_group] = None
            if is_new or self._keeps_shared_client_ids:
                self._producer_connections[heartbeat.client_id] = connection
        for data in heartbeat.consumers:
            group = self._consumer_group(data)
            is_new = enter(group.members)
            mine.consumers[data.group_name] = group
            size_before = group.size
            is_changed = group.subscribe(data)
            self._subscriptions_size += group.size - size_before
            if is_changed or is_new:
                self._notify_group(data.group_name)

        if not mine:
            del self._memberships[connection.key]

    def _consumer_group(self, data: ConsumerData) -> ConsumerGroup:
        known = self._consumers.get(data.group_name)
        if known is None:
            self._groups_so_far += 1
            known = self._consumers[data.group_name] = ConsumerGroup(data, self._groups_so_far)
        return known

    def unregister(
        self, connection: Connection, *, producer_group: str | None, consumer_group: str | None
    ) -> None:
        """Remove a connection from the groups that its client names (code 35)."""
        if producer_group is not None:
            self._leave_producers(producer_group, connection.key)
        if consumer_group is not None:
            self._leave_consumers(consumer_group, connection.key)

    def connection_closed(self, connection: Connection) -> None:
        """Remove a connection that has ended from all groups, and notify them."""
        mine = self._memberships.get(connection.key)
        if mine is None:
            return
        for group in list(mine.producers):
            self._leave_producers(group, connection.key)
        for group in _oldest_first(mine):
            self._leave_consumers(group, connection.key)

    def expire(self) -> None:
        """Close connections whose clients have been silent for too long, and remove them from their groups."""
        oldest_ns = self._now_ns() - CLIENT_EXPIRY_NS
        tables = [group.members for group in self._consumers.values()]
        tables += self._producers.values()
        silent = [m for members in tables for m in members.values() if m.seen_at_ns < oldest_ns]
        for member in silent:
            if not self._notifies_of_expired_members:
                self._forget(member.connection.key)
            member.connection.close()

    def _forget(self, key: int) -> None:
        """Remove a connection from all groups without notifications (RocketMQ, scanNotActiveChannel)."""
        mine = self._memberships.get(key)
        if mine is None:
            return
        for name in list(mine.producers):
            self._leave_producers(name, key)
        for name in _oldest_first(mine):
            group = mine.consumers.pop(name)
            del group.members[key]
            self._left(key)
            if not group.members:
                self._end(name)

    def _leave_producers(self, group: str, key: int) -> None:
        members = self._producers.get(group, {})
        member = members.pop(key, None)
        if member is None:
            return
        del self._memberships[key].producers[group]
        self._left(key)
        if not members:
            del self._producers[group]
        self._forget_producer_id(member)

    def _forget_producer_id(self, member: Member) -> None:
        """Drop the mapping of a producer's client id to this member's connection."""
        known = self._producer_connections.get(member.client_id)
        if known is None:
            return
        if known.key == member.connection.key or not self._keeps_shared_client_ids:
            del self._producer_connections[member.client_id]

    def _leave_consumers(self, group: str, key: int) -> None:
        known = self._consumers.get(group)
        if known is None or known.members.pop(key, None) is None:
            return
        del self._memberships[key].consumers[group]
        self._left(key)
        if known.members:
            self._notify_group(group)
        else:
            self._end(group)

    def _left(self, key: int) -> None:
        """Count that a connection has left one group; forget it after the last one."""
        self._members -= 1
        if not self._memberships[key]:
            del self._memberships[key]

    def _end(self, group: str) -> None:
        self._subscriptions_size -= self._consumers.pop(group).size
        self._on_empty(group)

    def _notify_group(self, group: str) -> None:
        """Notify the members of a group, at once or, if this turn's share is used up, in a later turn."""
        if not self._may_notify(group):
            return
        if self._unnotified or self._share.is_over:
            if not self._unnotified:
                self._share.wait(self._notify_some, asyncio.get_running_loop())
            self._unnotified[group] = None
            return
        began_ns = self._now_ns()
        self._notify_all(group)
        self._spent_since(began_ns)

    def _notify_some(self) -> None:
        began_ns = self._now_ns()
        until_ns = began_ns + int(self._share.slice_s * NS_PER_S)
        while self._unnotified and self._now_ns() <= until_ns:
            group = next(iter(self._unnotified))
            del self._unnotified[group]
            self._notify_all(group)
        self._spent_since(began_ns)
        if self._unnotified:
            self._share.wait(self._notify_some, asyncio.get_running_loop())

    def _notify_all(self, group: str) -> None:
        known = self._consumers.get(group)
        if known is not None:  # the group still has members
            for member in known.members.values():
                self._notify(group, member.connection)

    def _spent_since(self, began_ns: int) -> None:
        spent_ns = self._now_ns() - began_ns
        if spent_ns:
            self._share.spend(spent_ns / NS_PER_S, asyncio.get_running_loop())


def _oldest_first(mine: Memberships) -> list[str]:
    """The consumer groups of a connection, in the order of their first heartbeats."""
    return sorted(mine.consumers, key=lambda name: mine.consumers[name].number)
