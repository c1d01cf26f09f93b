"""Sends requests to name servers and brokers, and finds brokers by topic or cluster (RocketMQ: MQClientAPIImpl)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Self, TypeVar

from staticfire.system_under_test.acl.signature import Credentials, signer_of
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.protocol.bodies import BrokerData, ClusterInfo, TopicRouteData
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.header_fields import Header
from staticfire.system_under_test.protocol.headers import GetRouteInfoHeader
from staticfire.system_under_test.protocol.json_body import JsonBody
from staticfire.system_under_test.remoting import RemotingClient, RemotingError
from staticfire.system_under_test.runtime.env import Env

TIMEOUT_S = 5.0  # RocketMQ: DefaultMQAdminExt's timeoutMillis
MASTER_ID = 0
SUCCESS = (int(ResponseCode.SUCCESS),)
REMARK_MAX = 300  # characters; Java puts whole stack traces there

Body = TypeVar("Body", bound=JsonBody)


class AdminClient:
    """The client of one administrator. Every method raises AdminError.

    `async with AdminClient(env, ["127.0.0.1:9876"]) as admin:`
    """

    def __init__(
        self,
        env: Env,
        name_servers: Sequence[str],
        *,
        timeout_s: float = TIMEOUT_S,
        credentials: Credentials | None = None,
    ) -> None:
        self.env = env
        self.name_servers = tuple(name_servers)
        self.timeout_s = timeout_s
        self.credentials = credentials
        self._remoting = RemotingClient(
            env, connect_timeout_s=timeout_s, sign=signer_of(credentials)
        )

    async def close(self) -> None:
        await self._remoting.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # One node

    async def ask(
        self,
        address: str,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        accepted: Collection[int] = SUCCESS,
    ) -> RemotingCommand:
        """Send a request to one node and return its answer. Raises AdminError if its code is not in `accepted`."""
        ext = header.to_ext() if isinstance(header, Header) else dict(header or {})
        request = RemotingCommand.request(code, ext, body)
        try:
            answer = await self._remoting.invoke(
                address, request, self.timeout_s, close_on_timeout=True
            )
        except RemotingError as error:
            raise AdminError(f"no answer from {address} to {code_name(code)}: {error}") from error
        if answer.code not in accepted:
            raise AdminError(_refusal(address, code, answer), answer.code)
        return answer

    async def ask_body(
        self,
        address: str,
        code: int,
        body_type: type[Body],
        header: Header | Mapping[str, str] | None = None,
    ) -> Body:
        """Like `ask`, but returns the decoded body of the answer."""
        answer = await self.ask(address, code, header)
        return read_body(address, code, body_type, answer)

    # Name servers

    async def ask_name_server(
        self, code: int, header: Header | Mapping[str, str] | None = None
    ) -> RemotingCommand:
        """The first successful answer of a name server, in the configured order."""
        failure = AdminError("no name server is given")
        for address in self.name_servers:
            try:
                return await self.ask(address, code, header)
            except AdminError as error:
                if failure.code is None:  # prefer a refusal to a missing answer
                    failure = error
        raise failure

    async def ask_name_servers(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b""
    ) -> dict[str, RemotingCommand]:
        """The answers of all name servers, by address: they share no state, so writes go to all."""
        answers = (self.ask(address, code, header, body) for address in self.name_servers)
        return dict(zip(self.name_servers, await asyncio.gather(*answers), strict=True))

    async def name_server_body(
        self,
        code: int,
        body_type: type[Body],
        header: Header | Mapping[str, str] | None = None,
    ) -> Body:
        answer = await self.ask_name_server(code, header)
        return read_body("a name server", code, body_type, answer)

    async def route(self, topic: str) -> TopicRouteData:
        """The route of a topic. Raises AdminError with code 17 if no name server has it."""
        header = GetRouteInfoHeader(topic=topic, accept_standard_json_only=True)
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        return await self.name_server_body(code, TopicRouteData, header)

    async def cluster_info(self) -> ClusterInfo:
        return await self.name_server_body(RequestCode.GET_BROKER_CLUSTER_INFO, ClusterInfo)

    # Finding brokers

    async def brokers(self, cluster: str | None = None) -> list[BrokerData]:
        """The brokers of a cluster, or of all clusters, sorted by name."""
        info = await self.cluster_info()
        if cluster is not None and cluster not in info.cluster_addr_table:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise AdminError(f"there is no cluster {cluster!r}; there are: {known}")
        names = info.broker_addr_table if cluster is None else info.cluster_addr_table[cluster]
        return [
            info.broker_addr_table[name] for name in sorted(names) if name in info.broker_addr_table
        ]

    async def masters(self, cluster: str | None = None) -> dict[str, str]:
        """Addresses of masters by broker name."""
        found = {
            broker.broker_name: broker.broker_addrs[MASTER_ID]
            for broker in await self.brokers(cluster)
            if MASTER_ID in broker.broker_addrs
        }
        if not found:
            where = "the cluster" if cluster is None else f"the cluster {cluster!r}"
            raise AdminError(f"{where} has no master now")
        return found

    async def master(self, broker_name: str) -> str:
        """The address of the master of a broker name. Raises AdminError if there is none."""
        masters = await self.masters()
        if broker_name not in masters:
            raise AdminError(
                f"there is no master of {broker_name!r}; there are: {', '.join(sorted(masters))}"
            )
        return masters[broker_name]

    async def topic_brokers(self, topic: str) -> dict[str, str]:
        """One address for each broker name that has the topic: the master's, or a slave's if there is no master."""
        route = await self.route(topic)
        return {
            broker.broker_name: _best_address(broker)
            for broker in sorted(route.broker_datas, key=lambda each: each.broker_name)
            if broker.broker_addrs
        }


def code_name(code: int) -> str:
    try:
        return f"{RequestCode(code).name} ({int(code)})"
    except ValueError:
        return f"request {code}"


def read_body(source: str, code: int, body_type: type[Body], answer: RemotingCommand) -> Body:
    """Decode the body of an answer. Raises AdminError if it is malformed."""
    try:
        return body_type.from_bytes(answer.body)
    except ValueError as error:
        raise AdminError(
            f"the answer of {source} to {code_name(code)} makes no sense: {error}"
        ) from error


def read_int(source: str, answer: RemotingCommand, name: str) -> int:
    """A number in the header of an answer. Raises AdminError."""
    text = answer.ext_fields.get(name, "")
    try:
        return int(text)
    except ValueError:
        raise AdminError(
            f"the answer of {source} makes no sense: {name} is {text[:80]!r}"
        ) from None


def _best_address(broker: BrokerData) -> str:
    return broker.broker_addrs[min(broker.broker_addrs)]


def _refusal(address: str, code: int, answer: RemotingCommand) -> str:
    try:
        name = f"{answer.code} {ResponseCode(answer.code).name}"
    except ValueError:
        name = str(answer.code)
    remark = " ".join((answer.remark or "no reason given").split())[:REMARK_MAX]
    return f"{address} refused {code_name(code)} with code {name}: {remark}"
