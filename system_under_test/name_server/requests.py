"""Handles each request code at a name server (RocketMQ: DefaultRequestProcessor)."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Callable, Generator

from staticfire.system_under_test.name_server.encoded_routes import EncodedRoutes
from staticfire.system_under_test.name_server.kv_config import ORDER_TOPIC_NAMESPACE, KvConfig
from staticfire.system_under_test.name_server.live_config import ForbiddenOption, LiveConfig
from staticfire.system_under_test.name_server.route_table import (
    UNIT_FLAG,
    UNIT_SUBSCRIPTION_FLAG,
    BrokerIdentity,
    Registration,
    RouteTable,
)
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import DataVersion, RegisterBrokerBody
from staticfire.system_under_test.protocol.codes import FAQ, RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.header_fields import HeaderError
from staticfire.system_under_test.protocol.headers import (
    GetRouteInfoHeader,
    RegisterBrokerHeader,
    UnregisterBrokerHeader,
)
from staticfire.system_under_test.protocol.json_writer import (
    dumps_browser_compatible,
    dumps_fastjson,
)
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.remoting.pieces import Pieces

STANDARD_JSON_VERSION_MIN = 401  # MQVersion V4_9_4
# How long a doubtful registration waits: if its client has closed the connection, the end arrives by then.
DOUBT_S = 1.0
DOUBTED_MAX = 100
NS_PER_S = 1_000_000_000
TOPICS_A_TURN = 2_000  # topics of a registration read in one turn of the loop: tens of milliseconds
CRC_MASK = 0x7FFFFFFF  # RocketMQ, UtilAll.crc32: drops the sign bit


class Caller:
    """The connection and the arrival time of a request."""

    __slots__ = ("connection", "now_ns")

    def __init__(self, *, connection: Connection, now_ns: int) -> None:
        self.connection = connection
        self.now_ns = now_ns


Answerer = Callable[[RemotingCommand, Caller], RemotingCommand | None]
Registering = Generator[None, None, RegisterBrokerBody]


class RequestTable:
    """One method per request code. All of them raise ValueError for a mistake of the peer, which gets code 1."""

    def __init__(self, routes: RouteTable, kv_config: KvConfig, live_config: LiveConfig) -> None:
        self._routes = routes
        self._kv_config = kv_config
        self._live_config = live_config
        self._pieces = Pieces()
        # number of doubtful registrations that wait, by connection
        self._doubted: Counter[int] = Counter()
        self._standard_routes = EncodedRoutes(dumps_browser_compatible)
        self._java_routes = EncodedRoutes(dumps_fastjson)
        self._answerers: dict[int, Answerer] = {
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.QUERY_DATA_VERSION: self._query_data_version,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe_write_permission,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add_write_permission,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._topics_by_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.PUT_KV_CONFIG: self._put_kv,
            RequestCode.GET_KV_CONFIG: self._get_kv,
            RequestCode.DELETE_KV_CONFIG: self._delete_kv,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._kv_list,
            RequestCode.GET_UNIT_TOPIC_LIST: self._unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._unit_subscription_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._unit_subscription_only_topics,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update_config,
            RequestCode.GET_NAMESRV_CONFIG: self._get_config,
        }

    def knows(self, code: int) -> bool:
        return code in self._answerers

    def answer(
        self, request: RemotingCommand, *, connection: Connection, now_ns: int
    ) -> RemotingCommand | None:
        """The response to a request with a known code; None if it comes later."""
        caller = Caller(connection=connection, now_ns=now_ns)
        return self._answerers[request.code](request, caller)

    # Brokers

    def _register(self, request: RemotingCommand, caller: Caller) -> RemotingCommand | None:
        """Register; with many topics in later turns of the loop, and then later registrations wait for it."""
        if self._pieces:
            return self._pieces.go_on(
                caller.connection, request, lambda _, same: self._read_registration(same, caller)
            )
        return self._read_registration(request, caller)

    def _read_registration(
        self, request: RemotingCommand, caller: Caller
    ) -> RemotingCommand | None:
        header = RegisterBrokerHeader.from_ext(request.ext_fields)
        if header.body_crc32 and header.body_crc32 != zlib.crc32(request.body) & CRC_MASK:
            raise ValueError("crc32 not match")
        document = RegisterBrokerBody.read(
            request.body, compressed=header.compressed, version=request.version
        )
        if topic_count(document) <= TOPICS_A_TURN:
            body = RegisterBrokerBody.from_json(document)
            return self._registered(request, header, body, caller)
        work = RegisterBrokerBody.decode_in_pieces(document, TOPICS_A_TURN)
        return self._go_on(request, header, work, caller)

    def _go_on(
        self,
        request: RemotingCommand,
        header: RegisterBrokerHeader,
        work: Registering,
        caller: Caller,
    ) -> RemotingCommand | None:
        def next_piece(_: Connection, same: RemotingCommand) -> RemotingCommand | None:
            try:
                next(work)
            except StopIteration as end:
                return self._registered(same, header, end.value, caller)
            return self._go_on(same, header, work, caller)

        return self._pieces.go_on(caller.connection, request, next_piece, first=True)

    def _registered(
        self,
        request: RemotingCommand,
        header: RegisterBrokerHeader,
        body: RegisterBrokerBody,
        caller: Caller,
    ) -> RemotingCommand | None:
        registration = Registration(
            identity=BrokerIdentity(
                cluster=header.cluster_name,
                broker_name=header.broker_name,
                broker_id=header.broker_id,
                address=header.broker_addr,
            ),
            ha_address=header.ha_server_addr,
            topics=body.topic_config_table.topics,
            data_version=body.topic_config_table.data_version,
            filter_servers=tuple(body.filter_servers),
        )
        key = caller.connection.key
        if key in self._doubted or self._routes.is_doubtful(registration, connection_key=key):
            return self._doubt(request, registration, caller)
        return self._believe(request, registration, caller)

    def _doubt(
        self, request: RemotingCommand, registration: Registration, caller: Caller
    ) -> RemotingCommand | None:
        """Let a registration wait: if its broker had given the connection up, the end of the connection follows it."""
        if self._doubted.total() >= DOUBTED_MAX:
            text = f"{DOUBTED_MAX} registrations wait: try again later"
            return RemotingCommand.response(request, ResponseCode.SYSTEM_BUSY, text)
        connection = caller.connection
        later = Caller(connection=connection, now_ns=caller.now_ns + round(DOUBT_S * NS_PER_S))
        self._doubted[connection.key] += 1

        def go_on() -> None:
            self._doubted -= Counter([connection.key])
            if not connection.closed:
                connection.serve(request, lambda _, same: self._believe(same, registration, later))

        asyncio.get_running_loop().call_later(DOUBT_S, go_on)
        return None

    def _believe(
        self, request: RemotingCommand, registration: Registration, caller: Caller
    ) -> RemotingCommand | None:
        master = self._routes.register(
            registration, now_ns=caller.now_ns, connection_key=caller.connection.key
        )
        if master is None:
            # a broker that still uses it will register again on a new one
            caller.connection.close()
            return None
        ext = {"masterAddr": master.address, "haServerAddr": master.ha_address}
        order_topics = self._kv_config.pairs(ORDER_TOPIC_NAMESPACE)
        return success(
            request,
            {name: value for name, value in ext.items() if value is not None},
            {"table": order_topics} if order_topics is not None else None,
        )

    def _unregister(self, request: RemotingCommand, caller: Caller) -> RemotingCommand:
        self._routes.unregister(
            identity_of(request), now_ns=caller.now_ns, connection_key=caller.connection.key
        )
        return success(request)

    def _query_data_version(self, request: RemotingCommand, caller: Caller) -> RemotingCommand:
        address = identity_of(request).address
        known = self._routes.data_version(address)
        asked = DataVersion.from_json(json_dialect.loads_request(request.body))
        if known == asked:
            self._routes.touch(address, now_ns=caller.now_ns)
        ext = {"changed": "false" if known == asked else "true"}
        return success(request, ext, known.to_json() if known is not None else None)

    # Topics

    def _route(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        header = GetRouteInfoHeader.from_ext(request.ext_fields)
        topic = header.topic
        route = self._routes.route(topic)
        if route is None:
            remark = f"No topic route info in name server for the topic: {topic}{FAQ}"
            return RemotingCommand.response(request, ResponseCode.TOPIC_NOT_EXIST, remark)
        body = route.to_json()
        order = self._kv_config.get(ORDER_TOPIC_NAMESPACE, topic)
        if self._live_config.config.order_message_enable and order is not None:
            body["orderTopicConf"] = order
        if header.accept_standard_json_only or request.version >= STANDARD_JSON_VERSION_MIN:
            return with_body(request, self._standard_routes.encoded(topic, body))
        return with_body(request, self._java_routes.encoded(topic, body))

    def _cluster_info(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        return with_body(request, dumps_fastjson(self._routes.cluster_info().to_json()))

    def _topics(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        return success(request, body={"topicList": self._routes.topics()})

    def _topics_by_cluster(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        topics = self._routes.topics_by_cluster(required(request, "cluster"))
        return success(request, body={"topicList": topics})

    def _unit_topics(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        return success(request, body={"topicList": self._routes.topics_by_flags(has=UNIT_FLAG)})

    def _unit_subscription_topics(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        topics = self._routes.topics_by_flags(has=UNIT_SUBSCRIPTION_FLAG)
        return success(request, body={"topicList": topics})

    def _unit_subscription_only_topics(
        self, request: RemotingCommand, _: Caller
    ) -> RemotingCommand:
        topics = self._routes.topics_by_flags(has=UNIT_SUBSCRIPTION_FLAG, lacks=UNIT_FLAG)
        return success(request, body={"topicList": topics})

    def _system_topics(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        body: dict[str, object] = {"topicList": self._routes.clusters_and_brokers()}
        address = self._routes.some_address()
        if address is not None:
            body["brokerAddr"] = address
        return success(request, body=body)

    def _delete_topic(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        cluster = request.ext_fields.get("clusterName") or None
        self._routes.delete_topic(required(request, "topic"), cluster=cluster)
        return success(request)

    def _wipe_write_permission(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        count = self._routes.wipe_write_permission(required(request, "brokerName"))
        return success(request, {"wipeTopicCount": str(count)})

    def _add_write_permission(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        count = self._routes.add_write_permission(required(request, "brokerName"))
        return success(request, {"addTopicCount": str(count)})

    # Key-value pairs

    def _put_kv(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        namespace, key = required(request, "namespace"), required(request, "key")
        self._kv_config.put(namespace, key, required(request, "value"))
        return success(request)

    def _get_kv(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        namespace, key = required(request, "namespace"), required(request, "key")
        value = self._kv_config.get(namespace, key)
        if value is None:
            return not_found(request, f"No config item, Namespace: {namespace} Key: {key}")
        return success(request, {"value": value})

    def _delete_kv(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        self._kv_config.delete(required(request, "namespace"), required(request, "key"))
        return success(request)

    def _kv_list(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        namespace = required(request, "namespace")
        pairs = self._kv_config.pairs(namespace)
        if pairs is None:
            return not_found(request, f"No config item, Namespace: {namespace}")
        return success(request, body={"table": pairs})

    # Options

    def _update_config(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        try:
            self._live_config.update(request.body.decode())
        except ForbiddenOption as error:
            return RemotingCommand.response(request, ResponseCode.NO_PERMISSION, str(error))
        return success(request)

    def _get_config(self, request: RemotingCommand, _: Caller) -> RemotingCommand:
        return with_body(request, self._live_config.text().encode())


def topic_count(document: object) -> int:
    """The number of topics in the document of a registration; 0 for a malformed one."""
    wrapper = document.get("topicConfigSerializeWrapper") if isinstance(document, dict) else None
    topics = wrapper.get("topicConfigTable") if isinstance(wrapper, dict) else None
    return len(topics) if isinstance(topics, dict) else 0


def with_body(request: RemotingCommand, body: bytes) -> RemotingCommand:
    return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body)


def success(
    request: RemotingCommand,
    ext_fields: dict[str, str] | None = None,
    body: dict[str, object] | None = None,
) -> RemotingCommand:
    data = json_dialect.dumps(body) if body is not None else b""
    return RemotingCommand.response(request, ResponseCode.SUCCESS, None, ext_fields, data)


def not_found(request: RemotingCommand, remark: str) -> RemotingCommand:
    return RemotingCommand.response(request, ResponseCode.QUERY_NOT_FOUND, remark)


def required(request: RemotingCommand, field: str) -> str:
    """A required header field, for requests without a header class. Raises HeaderError."""
    value = request.ext_fields.get(field)
    if value is None:
        raise HeaderError(f"header field {field} is missing")
    return value


def identity_of(request: RemotingCommand) -> BrokerIdentity:
    header = UnregisterBrokerHeader.from_ext(request.ext_fields)
    return BrokerIdentity(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
    )
