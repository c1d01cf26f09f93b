"""Mutants of RMQ-NS."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.registration.name_server_calls import NameServerCalls
from staticfire.system_under_test.broker.registration.registration import Registration
from staticfire.system_under_test.name_server import route_table
from staticfire.system_under_test.name_server.route_table import BrokerIdentity, RouteTable
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.conformance.mutants.mutant import Answer, answers, requests, system


@answers("RMQ-NS-01", RequestCode.GET_ROUTEINFO_BY_TOPIC)
def every_topic_is_writable(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b'"perm":4', b'"perm":6')
    return answer


@answers("RMQ-NS-01", RequestCode.REGISTER_BROKER)
def compressed_registrations_are_refused(request: RemotingCommand, answer: Answer) -> Answer:
    if request.ext_fields.get("compressed") == "true":
        answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@answers("RMQ-NS-02", RequestCode.GET_ROUTEINFO_BY_TOPIC)
def unknown_topics_are_errors(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@requests("RMQ-NS-03", RequestCode.REGISTER_BROKER)
def checksums_ignored(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["bodyCrc32"] = "0"
    return request


@system("RMQ-NS-04")
def ended_connections_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RouteTable, "connection_closed", lambda self, key: [])


@system("RMQ-NS-05")
def brokers_expire_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(route_table, "EXPIRY_NS", 180_000_000_000)


@system("RMQ-NS-05")
def brokers_expire_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(route_table, "EXPIRY_NS", 60_000_000_000)


@system("RMQ-NS-06")
def unregister_by_id_alone(patch: pytest.MonkeyPatch) -> None:
    unregister = RouteTable.unregister

    def by_id(
        self: RouteTable, identity: BrokerIdentity, *, now_ns: int, connection_key: int
    ) -> None:
        data = self._brokers.get(identity.broker_name)
        address = data.broker_addrs.get(identity.broker_id) if data is not None else None
        found = BrokerIdentity(
            cluster=identity.cluster,
            broker_name=identity.broker_name,
            broker_id=identity.broker_id,
            address=address or identity.address,
        )
        newest = connection_key + 1_000_000
        unregister(self, found, now_ns=now_ns, connection_key=newest)

    patch.setattr(RouteTable, "unregister", by_id)


@answers("RMQ-NS-07", RequestCode.GET_ROUTEINFO_BY_TOPIC)
def promoted_slaves_keep_their_id(_: RemotingCommand, answer: Answer) -> Answer:
    start = answer.body.find(b'"brokerAddrs":{"0":')
    end = answer.body.find(b"}", start)
    if start >= 0 and b'"1":' not in answer.body[start:end]:
        address = answer.body[start:end].partition(b'"0":')[2]
        answer.body = answer.body[:end] + b',"1":' + address + answer.body[end:]
    return answer


@answers("RMQ-NS-08", RequestCode.QUERY_DATA_VERSION)
def nothing_ever_changes(_: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields["changed"] = "false"
    return answer


@system("RMQ-NS-09")
def permissions_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RouteTable, "wipe_write_permission", lambda self, broker_name: 3)


@requests("RMQ-NS-10", RequestCode.DELETE_KV_CONFIG)
def keys_are_not_deleted(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["key"] = "another"
    return request


@system("RMQ-NS-11")
def brokers_register_once_in_ten_minutes(patch: pytest.MonkeyPatch) -> None:
    made = BrokerConfig.__init__

    def rarely(self: BrokerConfig, **fields: Any) -> None:
        made(self, **{**fields, "register_period_s": 600.0})

    patch.setattr(BrokerConfig, "__init__", rarely)
    patch.setattr(Registration, "connection_ended", lambda self, name_server: None)


@answers("RMQ-NS-09", RequestCode.ADD_WRITE_PERM_OF_BROKER)
def what_was_done_is_called_an_error(
    request: RemotingCommand, answer: RemotingCommand
) -> RemotingCommand:
    answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@answers("RMQ-NS-12", RequestCode.GET_ROUTEINFO_BY_TOPIC)
def routes_are_always_standard(_: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
    answer.body = answer.body.replace(b"{0:", b'{"0":')
    return answer


@answers("RMQ-NS-12", RequestCode.GET_ROUTEINFO_BY_TOPIC)
def routes_are_never_standard(_: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
    answer.body = answer.body.replace(b'{"0":', b"{0:")
    return answer


@system("RMQ-NS-13")
def brokers_ask_every_second(patch: pytest.MonkeyPatch) -> None:
    register = Registration._register

    async def never_well(self: Registration, name_server: str) -> bool:
        await register(self, name_server)
        return False

    patch.setattr(Registration, "_register", never_well)


@system("RMQ-NS-13")
def brokers_register_whatever_the_answer_is(patch: pytest.MonkeyPatch) -> None:
    is_changed = NameServerCalls.is_changed

    async def always(self: NameServerCalls, *asked: Any) -> bool:
        await is_changed(self, *asked)
        return True

    patch.setattr(NameServerCalls, "is_changed", always)


@system("RMQ-NS-13")
def brokers_ask_although_they_must_register(patch: pytest.MonkeyPatch) -> None:
    async def asked(self: Registration, name_server: str, table: Any) -> bool:
        return self._lacks_master or await self._calls.is_changed(name_server, table.data_version)

    patch.setattr(Registration, "_is_needed", asked)


@requests("RMQ-NS-13", RequestCode.UPDATE_BROKER_CONFIG)
def brokers_keep_their_name_servers(request: RemotingCommand) -> RemotingCommand:
    request.body = b"forceRegister=false\n"
    return request
