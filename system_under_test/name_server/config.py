"""Options of one name server. Comments name the Java properties (RocketMQ, NamesrvConfig)."""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.system_under_test.configuration.mode import Mode

# Options that code 318 never changes. The first four are RocketMQ's (DefaultRequestProcessor.initConfigBlackList).
BLACK_LIST = (
    "configBlackList",
    "configStorePath",
    "kvConfigPath",
    "rocketmqHome",
    "registerAllowedAddresses",
    "registerAllowedBrokers",
    "registerAllowedClusters",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerConfig:
    """Every option of a name server."""

    listen_host: str  # bindAddress
    listen_port: int = 9876  # listenPort; 0: the system chooses
    # not in RocketMQ; for the differences see system_under_test/broker/policies/policies.py
    mode: Mode = Mode.HARDENED
    # not in RocketMQ: faithful mode for these only; (): all
    faithful_policies: tuple[str, ...] = ()
    kv_config_path: str = "/namesrv/kvConfig.json"  # kvConfigPath
    config_path: str = "/namesrv/namesrv.properties"  # configStorePath: where code 318 writes
    # configBlackList: options that code 318 may not change; these three and rocketmqHome always count
    black_list: tuple[str, ...] = ("configBlackList", "configStorePath", "kvConfigPath")
    order_message_enable: bool = False  # orderMessageEnable: routes carry the order configuration
    # Not in RocketMQ: which brokers may register; (): every broker.
    register_hosts: tuple[str, ...] = ()  # registerAllowedAddresses
    register_clusters: tuple[str, ...] = ()  # registerAllowedClusters
    register_brokers: tuple[str, ...] = ()  # registerAllowedBrokers: by name

    @property
    def restricts_brokers(self) -> bool:
        return bool(self.register_hosts or self.register_clusters or self.register_brokers)
