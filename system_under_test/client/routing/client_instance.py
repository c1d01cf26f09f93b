"""The connections, routes, broker health and heartbeats shared by one process's clients (RocketMQ: MQClientInstance).

Every request to a broker goes through `ask`, so that all clients see a failure in one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from staticfire.system_under_test.acl.signature import Credentials, signer_of
from staticfire.system_under_test.client.errors import (
    BrokerNotAvailable,
    NoNameServer,
    RouteNotFound,
)
from staticfire.system_under_test.client.periodic_task import PeriodicTask
from staticfire.system_under_test.client.routing.broker_health import BrokerHealth
from staticfire.system_under_test.client.routing.name_servers import NameServers
from staticfire.system_under_test.client.routing.routes import MASTER_ID, Route, RouteTable
from staticfire.system_under_test.client.waiting import wait_until
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import ConsumerData, HeartbeatData
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import UnregisterClientHeader
from staticfire.system_under_test.remoting import Connection, Handler, RemotingClient, RemotingError
from staticfire.system_under_test.remoting.connection import not_supported
from staticfire.system_under_test.runtime.env import Env

ROUTE_REFRESH_S = 30.0  # RocketMQ: pollNameServerInterval
HEARTBEAT_INTERVAL_S = 30.0  # RocketMQ: heartbeatBrokerInterval
HEARTBEAT_TIMEOUT_S = 3.0  # RocketMQ: mqClientApiTimeout
GOODBYE_TIMEOUT_S = 1.0
TEMPLATE_TOPIC = "TBW102"  # RocketMQ: TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC

# Members of a group divide the queues by the routes that they have: a change that one member sees half a minute before
# another leaves queues without an owner for that long. So consumers refresh often.
CONSUMER_ROUTE_REFRESH_S = 1.5


class Consumer(Protocol):
    """The interface of a consumer that a client instance needs."""

    group: str

    def heartbeat_data(self) -> ConsumerData: ...

    def members_changed(self) -> None:
        """The members of the group may have changed."""
        ...

    def route_changed(self, topic: str) -> None: ...

    def broker_silent(self, address: str) -> None: ...

    def broker_back(self, address: str) -> None: ...


class ClientConfig(Protocol):
    """The options of every kind of client. `client_id` is `ip@name` and unique in the cluster."""

    @property
    def client_id(self) -> str: ...

    @property
    def name_servers(self) -> Sequence[str]: ...

    @property
    def group(self) -> str: ...

    @property
    def credentials(self) -> Credentials | None: ...


class ClientInstance:
    """One client id, with at most one producer group and one consumer, which must be set before start()."""

    def __init__(self, env: Env, config: ClientConfig) -> None:
        self.env = env
        self.client_id = config.client_id
        self.remoting = RemotingClient(
            env, on_request=self._serve, sign=signer_of(config.credentials)
        )
        self.name_servers = NameServers(self.remoting, config.name_servers, env.log)
        self.health = BrokerHealth(
            self.remoting, env.log, group=config.group, on_silent=self._silent, on_back=self._back
        )
        self.routes = RouteTable(is_kept=self._is_kept_in_routes, on_change=self._route_changed)
        self.producer_group: str | None = None
        self.consumer: Consumer | None = None
        self.on_request: Handler | None = None  # handles requests of brokers except code 40
        self.on_broker_back: list[Callable[[str], None]] = []  # called with the address
        self._topics: dict[str, None] = {}
        # Addresses to which a heartbeat was sent -> the connection at its answer, or at the last check.
        self._greeted: dict[str, Connection | None] = {}
        self._known: dict[str, None] = {}  # addresses in routes
        self._refresh = PeriodicTask(
            env.log, "route refresh", self._refresh_routes, self._refresh_interval_s
        )
        self._heartbeat = PeriodicTask(
            env.log, "heartbeat", self._beat_all, lambda: HEARTBEAT_INTERVAL_S
        )

    def start(self) -> None:
        self._refresh.start()
        self._heartbeat.start()

    async def stop(self) -> None:
        """Unregister at every broker that answers, then close all connections."""
        await self._refresh.stop()
        await self._heartbeat.stop()
        await self.health.stop()
        await self._unregister()
        await self.remoting.close()

    # Routes

    def use_topic(self, topic: str) -> None:
        """Look up the topic soon, and periodically from then on."""
        self._topics[topic] = None
        self._refresh.wake()

    async def look_up(self, topic: str) -> Route:
        """Ask the name servers now.

        Raises:
            NoNameServer: no name server answers. A route known from earlier stays in use.
            RouteNotFound: no name server has the topic. A route known from earlier stays in use.
        """
        self._topics[topic] = None
        brokers = await self.name_servers.route(topic)
        if brokers is None:
            raise RouteNotFound(f"no name server knows the topic {topic}")
        return self.routes.update(topic, brokers, asyncio.get_running_loop().time())

    def known_publish_route(self, topic: str) -> Route | None:
        """The route for sends to `topic` if it is known without asking name servers."""
        known = self.routes.route(topic)
        return known if known is not None and self._can_publish(known) else None

    async def publish_route(self, topic: str) -> Route:
        """The route for sends to `topic`; for a topic that does not exist, that of the template.

        Raises as look_up does.
        """
        if (good := self.known_publish_route(topic)) is not None:
            return good
        known = self.routes.route(topic)
        try:
            return await self.look_up(topic)
        except NoNameServer:
            if known is None:
                raise
            return known
        except RouteNotFound:
            if known is not None and not known.is_template:
                return known
            # A template route may come from a slave alone, from before its master was registered.
            template = await self.name_servers.route(TEMPLATE_TOPIC)
            if template is None:
                if known is not None:
                    return known
                raise
            try:  # brokers may have registered between the two questions; a topic that exists has its own queues
                return await self.look_up(topic)
            except (NoNameServer, RouteNotFound):
                return self.routes.use_template(topic, template)

    async def read_route(self, topic: str) -> Route:
        """The route for reading from `topic`. Raises as look_up does."""
        known = self.routes.route(topic)
        return known if known is not None and known.read_queues else await self.look_up(topic)

    def _can_publish(self, route: Route) -> bool:
        """Whether some master of the route answers; if not, name servers may have another one."""
        return any(
            broker.is_writable and self.health.is_answering(broker.addresses[MASTER_ID])
            for broker in route.brokers.values()
        )

    def master(self, broker_name: str) -> str | None:
        """The address of the master, if the route has one; it may be silent."""
        broker = self.routes.broker(broker_name)
        return None if broker is None else broker.addresses.get(MASTER_ID)

    def replica(self, broker_name: str, wanted_id: int = MASTER_ID) -> tuple[int, str] | None:
        """Id and address of the best replica that answers; None if none does.

        The best is the wanted one; if that is a slave, then the one with the next id; then the master, then the lowest
        id (RocketMQ, MQClientInstance.findBrokerAddressInSubscribe, which does not know which brokers answer).
        """
        broker = self.routes.broker(broker_name)
        if broker is None:
            return None
        wanted = () if wanted_id == MASTER_ID else (wanted_id, wanted_id + 1)
        for broker_id in (*wanted, *sorted(broker.addresses)):
            address = broker.addresses.get(broker_id)
            if address is not None and self.health.is_answering(address):
                return broker_id, address
        return None

    def look_for_master(self, broker_name: str) -> None:
        """Refresh the routes now if they have no master of this name (RocketMQ: RemoteBrokerOffsetStore)."""
        broker = self.routes.broker(broker_name)
        if broker is not None and MASTER_ID not in broker.addresses:
            self._refresh.wake()

    # Requests

    def notice_lost_connections(self) -> None:
        """Report brokers that have got a heartbeat and whose connection is gone: they have ended or closed it.

        A new connection may have replaced the old one: a restarting broker may be back within milliseconds.
        """
        for address, before in list(self._greeted.items()):
            connection = self.remoting.connection(address)
            if connection is None or before not in (None, connection):
                self.health.lost(address)
            else:
                self._greeted[address] = connection

    def ask(
        self, address: str, command: RemotingCommand, timeout_s: float
    ) -> asyncio.Future[RemotingCommand]:
        """Send a request; its outcome also updates the health of the broker."""
        answer = self.remoting.invoke_nowait(address, command, timeout_s)
        answer.add_done_callback(partial(self._note_outcome, address))
        return answer

    async def ask_replica(
        self,
        broker_name: str,
        command: RemotingCommand,
        timeout_s: float,
        wanted_id: int = MASTER_ID,
    ) -> tuple[int, RemotingCommand]:
        """Broker id and answer of the best replica that answers (see `replica`).

        Raises:
            BrokerNotAvailable: no replica answers.
            RemotingError: the replica did not answer this request.
        """
        replica = self.replica(broker_name, wanted_id)
        if replica is None:
            raise BrokerNotAvailable(f"no replica of {broker_name} answers")
        broker_id, address = replica
        return broker_id, await self.ask(address, command, timeout_s)

    def _note_outcome(self, address: str, answer: asyncio.Future[RemotingCommand]) -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            self.health.heard(address)
        elif isinstance(error, RemotingError):
            self.health.failed(address, error)

    def _serve(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Handle requests of brokers to clients."""
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            if self.consumer is not None:
                self.consumer.members_changed()
            return None
        if self.on_request is not None:
            return self.on_request(connection, request)
        return not_supported(request)

    # Route refresh

    def _refresh_interval_s(self) -> float:
        return ROUTE_REFRESH_S if self.consumer is None else CONSUMER_ROUTE_REFRESH_S

    async def _refresh_routes(self) -> None:
        for topic in list(self._topics):
            try:
                await self.look_up(topic)
            except RouteNotFound as error:
                self.env.log.info("route not found", topic=topic, error=str(error))
            except NoNameServer as error:
                self.env.log.warning("no name server", topic=topic, error=str(error))

    def _is_kept_in_routes(self, address: str) -> bool:
        return self.consumer is None or self.health.is_answering(address)

    def _route_changed(self, topic: str) -> None:
        before, self._known = self._known, dict.fromkeys(self.routes.addresses())
        self.health.retain(self._known)
        if before:
            self.health.note_arrivals(address for address in self._known if address not in before)
        self._greeted = {one: last for one, last in self._greeted.items() if one in self._known}
        for address in self._heartbeat_addresses():
            if address not in self._greeted and self.health.is_answering(address):
                self._beat(address)
        if self.consumer is not None:
            self.consumer.route_changed(topic)

    # Brokers come and go

    def _silent(self, address: str) -> None:
        self._greeted.pop(address, None)
        self._refresh.wake()
        if self.consumer is not None:
            self.consumer.broker_silent(address)

    def _back(self, address: str) -> None:
        self._beat(address)
        self._refresh.wake()
        for notify in self.on_broker_back:
            notify(address)
        if self.consumer is not None:
            self.consumer.broker_back(address)

    # Heartbeats

    def _heartbeat_addresses(self) -> list[str]:
        return self.routes.addresses(masters_only=self.consumer is None)

    async def _beat_all(self) -> None:
        for address in self._heartbeat_addresses():
            if self.health.is_answering(address):
                self._beat(address)

    def _beat(self, address: str) -> None:
        is_first = address not in self._greeted
        self._greeted.setdefault(address)
        command = RemotingCommand.request(RequestCode.HEART_BEAT, body=self._heartbeat_body())
        answer = self.ask(address, command, HEARTBEAT_TIMEOUT_S)
        if is_first:
            answer.add_done_callback(partial(self._registered, address))

    def _registered(self, address: str, answer: asyncio.Future[RemotingCommand]) -> None:
        """Note the connection on which the broker knows us now: on a later one it does not."""
        if answer.cancelled() or answer.exception() is not None:
            return
        if self._greeted.get(address, answer) is None:
            self._greeted[address] = self.remoting.connection(address)
        if self.consumer is not None:
            self.consumer.members_changed()

    def register_again(self) -> None:
        """Send heartbeats now: some broker does not have us registered although it should."""
        self._heartbeat.wake()

    def _heartbeat_body(self) -> bytes:
        data = HeartbeatData(
            client_id=self.client_id,
            producer_groups=[] if self.producer_group is None else [self.producer_group],
            consumers=[] if self.consumer is None else [self.consumer.heartbeat_data()],
        )
        return json_dialect.dumps(data.to_json())

    async def _unregister(self) -> None:
        """Leave the groups at every broker that got a heartbeat, without waiting for slow brokers."""
        header = UnregisterClientHeader(
            client_id=self.client_id,
            producer_group=self.producer_group,
            consumer_group=None if self.consumer is None else self.consumer.group,
        )
        answers = [
            self.ask(
                address,
                RemotingCommand.request(RequestCode.UNREGISTER_CLIENT, header.to_ext()),
                GOODBYE_TIMEOUT_S,
            )
            for address in self._greeted
            if self.remoting.connection(address) is not None
        ]
        await wait_until(answers, lambda: False, GOODBYE_TIMEOUT_S)
