"""Options that change while a broker runs (RocketMQ, Configuration and AdminBrokerProcessor.updateBrokerConfig).

A change updates the one config object that all components read; `on_change` notifies those that have derived a value
from it. Options that RocketMQ reads only at its start wait for the next start here, too. So do options of the broker's
identity and file formats: a broker that applies another name or flush mode only in part would be worse than either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.configuration.config import ConfigError, Property
from staticfire.system_under_test.configuration.config_file import rewrite_config_file
from staticfire.system_under_test.configuration.idle_options import IDLE_BROKER_OPTIONS, format_idle
from staticfire.system_under_test.configuration.java_properties import (
    check_request,
    format_properties,
    parse_properties,
)
from staticfire.system_under_test.configuration.option_values import format_value
from staticfire.system_under_test.filters.bloom import BloomFilter
from staticfire.system_under_test.protocol.bodies import DataVersion
from staticfire.system_under_test.runtime.env import Storage

# Options that cannot be changed over the network, besides configBlackList. The first three are RocketMQ's
# (AdminBrokerProcessor). The others would let a request choose the broker's files, or switch off its protection.
BLACK_LIST = (
    "brokerConfigPath",
    "configBlackList",
    "rocketmqHome",
    "aclCredentialsFile",
    "aclEnable",
    "aclFullSignature",
    "faithfulPolicies",
    "haAllowedAddresses",
    "mode",
    "readOnlyCommitLogStorePaths",
    "storePathCommitLog",
    "storePathRootDir",
)

# System properties of the JVM in RocketMQ, which code 25 cannot change.
SYSTEM_PROPERTY_PREFIX = "rocketmq."

NEXT_START_FIELDS = frozenset(
    (
        # The broker's identity, and where it listens.
        "broker_id",
        "broker_name",
        "cluster_name",
        "fast_port",
        "ha_master_address",
        "ha_peers",
        "listen_host",
        "listen_port",
        "role",
        "sync_flush",
        # The format of its files.
        "bloom_error_percent",
        "bloom_groups",
        "commit_log_file_size",
        "consume_queue_file_size",
        "extends_queues",
        "extension_file_size",
        "delay_levels_ms",
        "index_enabled",  # RocketMQ applies it at once; but an index with a gap hides messages
        "index_numbers",
        "index_slots",
        "transient_pool",
        "transient_pool_size",
        # Used once at the start, as in RocketMQ: topics, request queues, timers.
        "broker_topic",
        "cluster_topic",
        "default_topic_queues",
        "makes_trace_topic",
        "trace_topic",
        "clean_interval_s",
        "client_manage_queue_capacity",
        "consumer_manage_queue_capacity",
        "delay_offset_flush_interval_s",
        "heartbeat_queue_capacity",
        "offset_flush_interval_s",
        "pull_queue_capacity",
        "query_queue_capacity",
        "reply_queue_capacity",
        "send_queue_capacity",
        "transaction_check_interval_s",
        "transaction_queue_capacity",
    )
)


class BlackListed(ValueError):
    """A request tries to change an option that cannot be changed over the network."""


class LiveConfig:
    """The options of a running broker under their Java names.

    Args:
        known: field and parser of each property.
        ignores_bad_values: ignore bad values, as RocketMQ does; if False, one bad value refuses the whole change.
        on_permission: called after the broker's permission has changed.

    The functions in `on_change` are called after options have changed, so that components apply them.
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
        self.on_change: list[Callable[[], None]] = []
        self.version = DataVersion(timestamp=now_ms(), counter=0)

    def text(self) -> str:
        """All options as a `.properties` text; those that wait for a restart have their new value.

        Options without effect here come last.
        """
        addresses = {
            "brokerIP2": self._config.listen_host,
            "haListenPort": str(self._config.ha_port),
        }
        bits = BloomFilter(self._config.bloom_error_percent, self._config.bloom_groups).bit_count
        derived = {**addresses, "bitMapLengthConsumeQueueExt": str(bits)}
        return self._own_text() + format_idle({**derived, **IDLE_BROKER_OPTIONS})

    def _own_text(self) -> str:
        values = {name: self._value(known) for name, known in sorted(self._known.items())}
        return format_properties(values)

    def _value(self, known: Property) -> str:
        current = getattr(self._config, known.field)
        return format_value(known.parse, self._waiting.get(known.field, current))

    def update(self, text: str) -> None:
        """Change the options in a `.properties` text; ignores unknown names.

        Raises:
            BlackListed: one of them may not be changed; nothing has changed.
            ValueError: the text is too long, or a value is bad or conflicts with others; nothing has changed.
            OSError: the file could not be rewritten; the options have changed.
        """
        check_request(text)
        properties = parse_properties(text)
        if any(name in BLACK_LIST or name in self._config.black_list for name in properties):
            raise BlackListed("Can not update config in black list.")
        fields = self._parse(properties)
        self._check_together(fields)
        permission = self._config.broker_permission
        for field, value in fields.items():
            if field in NEXT_START_FIELDS:
                self._waiting[field] = value
            else:
                setattr(self._config, field, value)
        self.version = DataVersion(timestamp=self._now_ms(), counter=self.version.counter + 1)
        for notify in self.on_change:
            notify()
        if self._config.broker_permission != permission:
            self._on_permission()
        self._save([name for name in properties if self._changes(name)])

    def _check_together(self, fields: Mapping[str, object]) -> None:
        """Raises ValueError if the next start would refuse these options."""
        options: dict[str, Any] = {**self._waiting, **fields}
        if "role" in options:
            options["role"] = BrokerRole(options["role"])
        if not self._ignores_bad_values:
            replace(self._config, **options)

    def _changes(self, name: str) -> bool:
        """Whether code 25 can change the option."""
        return name in self._known and not name.startswith(SYSTEM_PROPERTY_PREFIX)

    def _parse(self, properties: Mapping[str, str]) -> dict[str, object]:
        fields: dict[str, object] = {}
        for name, value in properties.items():
            if not self._changes(name):
                continue
            known = self._known[name]
            try:
                fields[known.field] = known.parse(value)
            except ValueError as error:
                if not self._ignores_bad_values:
                    raise ConfigError(f"{name} is {value!r:.80}, but {error}") from None
        return fields

    def _save(self, changed: Collection[str]) -> None:
        """Rewrite the file that the broker was started with; without one, add changed options to `changes_file`."""
        path, changes = self._config.config_file, self._config.changes_file
        if path is not None:
            rewrite_config_file(self._storage, path, self._known, self._own_text())
        elif changes is not None:
            values = {name: self._value(self._known[name]) for name in changed}
            rewrite_config_file(self._storage, changes, changed, format_properties(values))
