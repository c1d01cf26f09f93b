"""Options that change while a broker runs (RocketMQ, Configuration and AdminBrokerProcessor.updateBrokerConfig).

A change reaches the one config object that all components read. What a component has read once when it was made stays
as it was, as in RocketMQ. Options that say who the broker is, or how its files look, wait for the next start: half a
broker with another flush mode or another name would be worse than either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from system_under_test.broker.config import BrokerConfig
from system_under_test.config import (
    ConfigError,
    Property,
    format_properties,
    format_value,
    parse_properties,
)
from system_under_test.env import Storage
from system_under_test.protocol.bodies import DataVersion
from system_under_test.store.metadata_file import replace_atomically

# RocketMQ: configBlackList, and what is always refused
BLACK_LIST = ("brokerConfigPath", "configBlackList", "rocketmqHome")

NEXT_START_FIELDS = frozenset(
    (
        "acl_credentials_path",
        "acl_enable",
        "acl_path",
        "broker_id",
        "broker_name",
        "cluster_name",
        "commit_log_file_size",
        "commit_interval_s",
        "commit_log_path",
        "commit_pages",
        "consume_queue_file_size",
        "fail_fast_without_buffer",
        "faithful_policies",
        "ha_master_address",
        "ha_peers",
        "listen_host",
        "listen_port",
        "mode",
        "path_splitter",
        "read_only_log_paths",
        "role",
        "store_path",
        "transient_pool",
        "transient_pool_size",
        "sync_flush",
    )
)


class BlackListed(ValueError):
    """An option that nobody may change over the network."""


class LiveConfig:
    """The options of a running broker under their Java names.

    Args:
        known: how each property is read.
        ignores_bad_values: RocketMQ's way; otherwise a bad value refuses the whole change.
        on_permission: called after the broker's permission has changed.
    """

    def __init__(
        self,
        config: BrokerConfig,
        known: Mapping[str, Property],
        storage: Storage,
        *,
        now_ms: Callable[[], int],
        ignores_bad_values: bool,
        on_permission: Callable[[], None],
    ) -> None:
        self._config = config
        self._known = known
        self._storage = storage
        self._now_ms = now_ms
        self._ignores_bad_values = ignores_bad_values
        self._on_permission = on_permission
        self._waiting: dict[str, object] = {}  # fields for the next start
        self.version = DataVersion(timestamp=now_ms(), counter=0)

    def text(self) -> str:
        """All options as a `.properties` text, sorted by name; those that wait for a restart with their new value."""
        values = {name: self._value(known) for name, known in sorted(self._known.items())}
        return format_properties(values)

    def _value(self, known: Property) -> str:
        current = getattr(self._config, known.field)
        return format_value(known.parse, self._waiting.get(known.field, current))

    def update(self, text: str) -> None:
        """Change the options of a `.properties` text; unknown names are ignored.

        Raises:
            BlackListed: one of them may not be changed; nothing was.
            ConfigError: a value is bad; nothing was changed.
            OSError: the file could not be rewritten; the options have changed.
        """
        properties = parse_properties(text)
        if any(name in BLACK_LIST for name in properties):
            raise BlackListed("Can not update config in black list.")
        fields = self._parse(properties)
        permission = self._config.broker_permission
        for field, value in fields.items():
            if field in NEXT_START_FIELDS:
                self._waiting[field] = value
            else:
                setattr(self._config, field, value)
        self.version = DataVersion(timestamp=self._now_ms(), counter=self.version.counter + 1)
        if self._config.broker_permission != permission:
            self._on_permission()
        self._save()

    def _parse(self, properties: Mapping[str, str]) -> dict[str, object]:
        fields: dict[str, object] = {}
        for name, value in properties.items():
            known = self._known.get(name)
            if known is None:
                continue
            try:
                fields[known.field] = known.parse(value)
            except ValueError as error:
                if not self._ignores_bad_values:
                    raise ConfigError(f"{name} is {value!r:.80}, but {error}") from None
        return fields

    def _save(self) -> None:
        """Rewrite the file that the broker was started with, if there was one."""
        path = self._config.config_file
        if path is not None:
            replace_atomically(self._storage, path, self.text().encode())
