"""Keeps the routes of topics (RocketMQ: MQClientInstance.topicRouteTable, TopicPublishInfo).

The table is careful with answers of name servers. An error never clears a route. If a new answer lacks an address that
still answers *this client*, the table keeps the address for ROUTE_KEEP_S: a restarted name server has no routes until
the brokers' next registration (30 s), and two of these periods are the documented limit. A consumer drops an address
that does not answer with the first route that lacks it, so that its queues are divided anew. A producer keeps it for
the full time, because it avoids silent brokers anyway and wants them back as soon as they answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from staticfire.system_under_test.protocol.bodies import MessageQueue, QueueData, TopicRouteData

MASTER_ID = 0  # RocketMQ: MixAll.MASTER_ID
PERMISSION_READ = 4  # RocketMQ: PermName.PERM_READ
PERMISSION_WRITE = 2  # RocketMQ: PermName.PERM_WRITE
ROUTE_KEEP_S = 60.0
# queues of a topic on one broker: our brokers never have so many, and a client keeps a list of them
ROUTE_QUEUES_MAX = 1 << 17
TEMPLATE_QUEUES_MAX = 4  # RocketMQ: DefaultMQProducer.defaultTopicQueueNums


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRoute:
    """One broker name's part of a topic. `addresses` is by broker id; 0 is the master."""

    broker_name: str
    read_queues: int
    write_queues: int
    permission: int
    addresses: Mapping[int, str]
    ordered_queues: int | None = None  # by the order configuration of the topic, if it has one

    @property
    def is_writable(self) -> bool:
        return self.permission & PERMISSION_WRITE != 0 and MASTER_ID in self.addresses

    @property
    def is_readable(self) -> bool:
        return self.permission & PERMISSION_READ != 0


BrokerRoutes = Mapping[str, BrokerRoute]  # by broker name


def broker_routes(route: TopicRouteData) -> dict[str, BrokerRoute]:
    """The route by broker name, without brokers that lack queues or addresses.

    Keeps a broker that the order configuration names, even without queues.

    Raises ValueError for more than ROUTE_QUEUES_MAX queues, or a malformed order configuration.
    """
    queues: dict[str, QueueData] = {queue.broker_name: queue for queue in route.queue_datas}
    ordered = order_configuration(route.order_topic_conf or "")
    counts = [max(q.read_queue_nums, q.write_queue_nums) for q in queues.values()]
    most = max((*counts, *ordered.values()), default=0)
    if most > ROUTE_QUEUES_MAX:
        raise ValueError(f"a topic of {most} queues; up to {ROUTE_QUEUES_MAX} are allowed")
    absent = {
        name: BrokerRoute(
            broker_name=name,
            read_queues=0,
            write_queues=0,
            permission=0,
            addresses={},
            ordered_queues=count,
        )
        for name, count in ordered.items()
    }
    return absent | {
        broker.broker_name: BrokerRoute(
            broker_name=broker.broker_name,
            read_queues=queues[broker.broker_name].read_queue_nums,
            write_queues=queues[broker.broker_name].write_queue_nums,
            permission=queues[broker.broker_name].perm,
            addresses=dict(broker.broker_addrs),
            ordered_queues=ordered.get(broker.broker_name),
        )
        for broker in route.broker_datas
        if broker.broker_name in queues and broker.broker_addrs
    }


def order_configuration(text: str) -> dict[str, int]:
    """Queues by broker name, from `broker-a:4;broker-b:4` (RocketMQ: orderTopicConf). Raises ValueError."""
    counts = {}
    for part in filter(None, text.split(";")):
        name, colon, count = part.rpartition(":")
        if not (name and colon and count.isascii() and count.isdigit()):
            raise ValueError(f"order configuration has {part!r:.80}; expected broker:queues")
        counts[name] = int(count)
    return counts


def unite(answers: Sequence[BrokerRoutes]) -> dict[str, BrokerRoute]:
    """Merge the routes of several name servers. Where they differ, more queues win, then the first server.

    Name servers share no state, so one may lack a broker that another has, or queues that were added while it could not
    be reached: messages there would have no reader. Clients that always use the union agree with each other,
    whichever name servers they reach first.
    """
    united: dict[str, BrokerRoute] = {}
    for answer in answers:
        for name, broker in answer.items():
            known = united.get(name)
            if known is None:
                united[name] = broker
                continue
            addresses = known.addresses
            if broker.addresses.keys() - addresses.keys():
                addresses = {**broker.addresses, **addresses}
            best = broker if broker.read_queues > known.read_queues else known
            if best.addresses is not addresses:
                best = replace(best, addresses=addresses)
            united[name] = best
    return united


class Route:
    """One topic's brokers and queues, as one consistent view. Queue lists are sorted."""

    __slots__ = ("brokers", "is_template", "publish_queues", "read_queues", "topic")

    def __init__(self, topic: str, brokers: BrokerRoutes, *, is_template: bool = False) -> None:
        self.topic = topic
        self.brokers = {name: brokers[name] for name in sorted(brokers)}
        self.is_template = is_template
        self.publish_queues = tuple(
            MessageQueue(topic=topic, broker_name=broker.broker_name, queue_id=queue_id)
            for broker in self.brokers.values()
            if broker.is_writable
            for queue_id in range(broker.write_queues)
        )
        self.read_queues = tuple(
            MessageQueue(topic=topic, broker_name=broker.broker_name, queue_id=queue_id)
            for broker in self.brokers.values()
            if broker.is_readable
            for queue_id in range(broker.read_queues)
        )

    @property
    def has_order_configuration(self) -> bool:
        return any(broker.ordered_queues is not None for broker in self.brokers.values())

    @property
    def ordered_counts(self) -> dict[str, int]:
        """The number of queues for keys by broker name, whether its master is in the route or not."""
        if self.has_order_configuration:
            return {name: broker.ordered_queues or 0 for name, broker in self.brokers.items()}
        return {
            name: broker.write_queues
            for name, broker in self.brokers.items()
            if broker.permission & PERMISSION_WRITE
        }


def template_route(topic: str, template: BrokerRoutes) -> Route:
    """The route of a topic that no broker has yet: any broker with the template creates it on the first send."""
    brokers = {}
    for name, broker in template.items():
        queues = min(TEMPLATE_QUEUES_MAX, broker.read_queues)
        brokers[name] = replace(broker, read_queues=queues, write_queues=queues)
    return Route(topic, brokers, is_template=True)


class RouteTable:
    """The routes of the topics in use.

    Args:
        is_kept: whether to keep for a while an address that name servers do not list any more.
        on_change: called with the topic after its route has changed.
    """

    def __init__(self, *, is_kept: Callable[[str], bool], on_change: Callable[[str], None]) -> None:
        self._is_worth_keeping = is_kept
        self._on_change = on_change
        self._routes: dict[str, Route] = {}
        self._missing_since_s: dict[tuple[str, str, int], float] = {}  # topic, broker name, id

    def route(self, topic: str) -> Route | None:
        return self._routes.get(topic)

    def update(self, topic: str, fresh: BrokerRoutes, now_s: float) -> Route:
        """Apply an answer of name servers about a topic."""
        known = self._routes.get(topic)
        if known is None or known.is_template:
            return self._set(Route(topic, fresh))
        merged = self._with_kept_addresses(known, fresh, now_s)
        return known if known.brokers == merged else self._set(Route(topic, merged))

    def use_template(self, topic: str, template: BrokerRoutes) -> Route:
        """Set the route of a topic that does not exist yet, for sends."""
        route = template_route(topic, template)
        known = self._routes.get(topic)
        return route if known is not None and not known.is_template else self._set(route)

    def broker(self, broker_name: str) -> BrokerRoute | None:
        """The addresses of a broker name, from any topic's route."""
        for route in self._routes.values():
            broker = route.brokers.get(broker_name)
            if broker is not None:
                return broker
        return None

    def addresses(self, *, masters_only: bool = False) -> list[str]:
        """Every broker address in any route, sorted."""
        addresses = {
            address: None
            for route in self._routes.values()
            for broker in route.brokers.values()
            for broker_id, address in broker.addresses.items()
            if broker_id == MASTER_ID or not masters_only
        }
        return sorted(addresses)

    def broker_name_of(self, address: str) -> str | None:
        for route in self._routes.values():
            for broker in route.brokers.values():
                if address in broker.addresses.values():
                    return broker.broker_name
        return None

    def _set(self, route: Route) -> Route:
        self._routes[route.topic] = route
        self._on_change(route.topic)
        return route

    def _with_kept_addresses(
        self, known: Route, fresh: BrokerRoutes, now_s: float
    ) -> dict[str, BrokerRoute]:
        merged = dict(fresh)
        for name, old in known.brokers.items():
            new = fresh.get(name)
            listed = {} if new is None else new.addresses
            kept = {
                broker_id: address
                for broker_id, address in old.addresses.items()
                if self._is_kept((known.topic, name, broker_id), address, listed, now_s)
            }
            if kept:
                merged[name] = replace(new or old, addresses={**kept, **listed})
        return merged

    def _is_kept(
        self, key: tuple[str, str, int], address: str, listed: Mapping[int, str], now_s: float
    ) -> bool:
        if key[2] in listed:
            self._missing_since_s.pop(key, None)
            return False
        since_s = self._missing_since_s.setdefault(key, now_s)
        if self._is_worth_keeping(address) and now_s - since_s < ROUTE_KEEP_S:
            return True
        del self._missing_since_s[key]
        return False
