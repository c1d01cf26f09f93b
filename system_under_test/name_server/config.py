"""Options of one name server. Comments name the Java properties (RocketMQ, NamesrvConfig)."""

from __future__ import annotations

from dataclasses import dataclass

from system_under_test.mode import Mode

# What code 318 never changes (RocketMQ, DefaultRequestProcessor.initConfigBlackList).
BLACK_LIST = ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome")


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerConfig:
    """Every option of a name server."""

    listen_host: str  # bindAddress
    listen_port: int = 9876  # listenPort; 0: the system chooses
    mode: Mode = Mode.HARDENED  # ours alone; what differs is in system_under_test/policies.py
    faithful_policies: tuple[str, ...] = ()  # ours alone: with that mode, only these; (): all
    kv_config_path: str = "/namesrv/kvConfig.json"  # kvConfigPath
    config_path: str = "/namesrv/namesrv.properties"  # configStorePath: where code 318 writes
    # configBlackList: options that 318 may not change; these, and rocketmqHome, whatever it says
    black_list: tuple[str, ...] = ("configBlackList", "configStorePath", "kvConfigPath")
    order_message_enable: bool = False  # orderMessageEnable: routes carry the order configuration
