"""Options of all nodes of a kind, under the names that they have in RocketMQ's `.properties` files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from staticfire.harness.truncated_repr import truncated_repr
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.configuration import config as node_config
from staticfire.system_under_test.name_server.config import NameServerConfig

# Properties that another option of a campaign or a local cluster sets, or that differ from node to node.
RESERVED_PROPERTIES = frozenset(
    (
        "bindAddress",
        "brokerClusterName",
        "brokerIP1",
        "brokerId",
        "brokerName",
        "brokerRole",
        "faithfulPolicies",
        "flushDiskType",
        "haMasterAddress",
        "haPeers",
        "kvConfigPath",
        "listenPort",
        "mappedFileSizeCommitLog",
        "mode",
        "namesrvAddr",
        "storePathRootDir",
    )
)
# Properties of masters only, since slaves refuse to start with them.
MASTER_PROPERTIES = frozenset(("transientStorePoolEnable",))
# Properties with paths. A path that begins with STORE_ROOT is in the node's own store, since nodes may share a machine.
STORE_ROOT = "/store"
PATH_PROPERTIES = frozenset(
    (
        "readOnlyCommitLogStorePaths",
        "storePathCommitLog",
        "storePathConsumeQueue",
        "storePathIndex",
    )
)
Config = TypeVar("Config", BrokerConfig, NameServerConfig)


def in_store(properties: Iterable[tuple[str, str]], store: str) -> tuple[tuple[str, str], ...]:
    """Return a node's properties with paths below `STORE_ROOT` moved into its own folder `store`."""
    return tuple(
        (name, _in_folder(value, store) if name in PATH_PROPERTIES else value)
        for name, value in properties
    )


def _in_folder(paths: str, store: str) -> str:
    return ",".join(
        store + path.removeprefix(STORE_ROOT) if path.startswith(f"{STORE_ROOT}/") else path
        for path in paths.split(",")
    )


def with_properties(
    config: Config, properties: Iterable[tuple[str, str]], known: Mapping[str, node_config.Property]
) -> Config:
    """Raises ValueError for an unknown property, one that differs from node to node, or a bad value."""
    allowed = sorted(known.keys() - RESERVED_PROPERTIES)
    properties = tuple(properties)
    is_slave = isinstance(config, BrokerConfig) and config.is_slave
    for name, _ in properties:
        if name in RESERVED_PROPERTIES and name in known:
            raise ValueError(
                f"the property {name} cannot be given here: an option of its own sets it, or it differs from node"
                f" to node; allowed: {', '.join(allowed)}"
            )
        if name not in allowed:
            raise ValueError(
                f"unknown property {truncated_repr(name)}; there are: {', '.join(allowed)}"
            )
    try:
        changes: dict[str, Any] = {
            known[name].field: known[name].parse(value)
            for name, value in properties
            if not (name in MASTER_PROPERTIES and is_slave)
        }
        return replace(config, **changes)
    except ValueError as error:
        given = ", ".join(f"{name}={value}" for name, value in properties)
        raise ValueError(
            f"the properties {truncated_repr(given)} cannot be used: {error}"
        ) from error
