"""Decides which brokers may register, by three options that RocketMQ does not have."""

from __future__ import annotations

from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.requests import identity_of
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting.address import parse_address
from staticfire.system_under_test.remoting.allowed_hosts import SHOWN_MAX, AllowedHosts, RefusalLog
from staticfire.system_under_test.runtime.env import Log

# Requests of brokers: to register, to unregister, and to compare versions.
BROKER_CODES = (
    RequestCode.REGISTER_BROKER,
    RequestCode.UNREGISTER_BROKER,
    RequestCode.QUERY_DATA_VERSION,
)


class Admission:
    """Refuses brokers that an option does not list. An empty option refuses none."""

    def __init__(self, config: NameServerConfig, log: Log) -> None:
        self._config = config
        self._hosts = AllowedHosts(config.register_hosts)
        self._refusals = RefusalLog(log)

    def refuse(self, request: RemotingCommand, host: str) -> RemotingCommand | None:
        """The refusal of a request of a broker that may not register; None: it may, or the request is not a broker's.

        Args:
            host: the peer of the connection. Both it and the address that the broker registers must be listed.

        Raises ValueError: the request does not identify its broker.
        """
        if request.code not in BROKER_CODES:
            return None
        broker = identity_of(request)
        rules = (
            ("registerAllowedAddresses", "connection", host, self._hosts.allows(host)),
            ("registerAllowedAddresses", "address", broker.address, self._lists(broker.address)),
            (
                "registerAllowedClusters",
                "cluster",
                broker.cluster,
                _is_in(self._config.register_clusters, broker.cluster),
            ),
            (
                "registerAllowedBrokers",
                "name",
                broker.broker_name,
                _is_in(self._config.register_brokers, broker.broker_name),
            ),
        )
        for option, what, value, is_allowed in rules:
            if not is_allowed:
                reason = f"this broker may not register: {option} does not list its {what} {value[:SHOWN_MAX]!r}"
                self._refusals.log_once(
                    "broker was refused",
                    peer=host,
                    broker=broker.broker_name,
                    address=broker.address,
                    reason=reason,
                )
                return RemotingCommand.response(request, ResponseCode.NO_PERMISSION, reason)
        return None

    def _lists(self, address: str) -> bool:
        """Whether the host of `host:port` is allowed. Raises ValueError for a malformed address."""
        return self._hosts.allows_all or self._hosts.allows(parse_address(address)[0])


def _is_in(allowed: tuple[str, ...], name: str) -> bool:
    return not allowed or name in allowed
