"""Applies options that were changed while a node ran (codes 25 and 318) at its next start.

They override the options of the cluster, since they came later. They cannot override the layout of the cluster: names,
addresses and data folders of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from staticfire.harness.targets.node_properties import RESERVED_PROPERTIES
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.configuration.config import (
    BROKER_PROPERTIES,
    NAME_SERVER_PROPERTIES,
    Property,
    read_settings,
)
from staticfire.system_under_test.configuration.java_properties import (
    format_properties,
    parse_properties,
)
from staticfire.system_under_test.name_server.config import NameServerConfig

# Options in which one broker of the cluster may differ from the others.
_FREE = frozenset(("brokerClusterName", "brokerRole", "flushDiskType", "mappedFileSizeCommitLog"))
_FIXED = (RESERVED_PROPERTIES - _FREE) | {
    "configStorePath",
    "fastPortEnable",
    "readOnlyCommitLogStorePaths",
    "storePathCommitLog",
}

Config = TypeVar("Config", BrokerConfig, NameServerConfig)


def with_changed_options(config: Config) -> Config:
    """Return the config of one start. Raises ValueError, one sentence, if the file cannot be used; OSError."""
    if isinstance(config, BrokerConfig):
        return _changed(config, config.changes_file, BROKER_PROPERTIES)
    return _changed(config, config.config_path, NAME_SERVER_PROPERTIES)


def _changed(config: Config, path: str | None, known: Mapping[str, Property]) -> Config:
    if path is None or not Path(path).exists():
        return replace(config)
    try:
        properties = parse_properties(Path(path).read_text(encoding="utf-8"))
        free = {name: value for name, value in properties.items() if name not in _FIXED}
        fields: dict[str, Any] = read_settings(format_properties(free), known).fields
        if "role" in fields:
            fields["role"] = BrokerRole(fields["role"])
        return replace(config, **fields)
    except ValueError as error:
        raise ValueError(
            f"{path}, the options changed last time, cannot be used: {error}"
        ) from error
