"""Settings of consumer groups (RocketMQ, SubscriptionGroupManager). Durable in config/subscriptionGroup.json."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.protocol.bodies import DataVersion, SubscriptionGroupConfig
from staticfire.system_under_test.protocol.bodies_clients import SubscriptionGroupTable
from staticfire.system_under_test.store.metadata_file import MetadataFile

# RocketMQ, SubscriptionGroupManager.init
SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

GROUP_LENGTH_MAX = 255  # RocketMQ, Validators.CHARACTER_MAX_LENGTH
# A broker with so many groups creates no more by itself: each new one rewrites the table. Administrators still may.
GROUPS_MAX = 5_000
TABLE_MAX = 10_000  # groups that administrators may create
GROUP_CHARACTERS = re.compile(r"[%|a-zA-Z0-9_-]+")


def group_name_error(group: str) -> str | None:
    """What is wrong with a group name, or None (RocketMQ, Validators.checkGroup)."""
    if not group.strip():
        return "the specified group is blank"
    if len(group) > GROUP_LENGTH_MAX:
        return f"the specified group is longer than group max length {GROUP_LENGTH_MAX}."
    if not GROUP_CHARACTERS.fullmatch(group):
        return (
            f"the specified group[{group}] contains illegal characters,"
            " allowing only ^[%|a-zA-Z0-9_-]+$"
        )
    return None


class SubscriptionGroups:
    """The group table. Every change is durable before it is visible to others."""

    def __init__(
        self, config: BrokerConfig, file: MetadataFile, *, now_ms: Callable[[], int]
    ) -> None:
        self._config = config
        self._file = file
        self._now_ms = now_ms
        self._groups = {name: SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS}
        self._version = DataVersion(timestamp=now_ms(), counter=0)

    def load(self) -> None:
        """Read subscriptionGroup.json. Raises StoreError."""
        document = self._file.load()
        if document is not None:
            table = SubscriptionGroupTable.from_json(document)
            self._groups |= table.groups
            self._version = table.data_version

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The settings of a group, if it has any."""
        return self._groups.get(group)

    def is_notified_of_changes(self, group: str) -> bool:
        """Whether members of the group are notified when others join or leave."""
        settings = self._groups.get(group)
        wanted = settings is None or settings.notify_consumer_ids_changed_enable
        return wanted and self._config.notify_consumer_ids_changed

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """The settings of a group, which is created if that is allowed; None if it is unknown and may not be created.

        If the disk is too full to write them, the group has the default settings: consuming still helps then.
        """
        return self.find_all([group]).get(group)

    def find_all(self, names: Iterable[str]) -> dict[str, SubscriptionGroupConfig]:
        """Like `find`, for several names; returns the groups that have settings now. Creates groups with one write."""
        found: dict[str, SubscriptionGroupConfig] = {}
        made: dict[str, SubscriptionGroupConfig] = {}
        for name in names:
            known = self._groups.get(name)
            if known is None and self._may_create(name, len(made)):
                known = made[name] = SubscriptionGroupConfig(group_name=name)
            if known is not None:
                found[name] = known
        if made:
            with suppress(OSError):
                self._replace({**self._groups, **made})
        return found

    def _may_create(self, name: str, others: int) -> bool:
        """Whether the broker may create a group by itself, besides `others` new ones."""
        allowed = self._config.auto_create_groups or name.startswith(SYSTEM_GROUP_PREFIX)
        is_full = len(self._groups) + others >= GROUPS_MAX
        return allowed and not is_full and len(name) <= GROUP_LENGTH_MAX

    def put(self, group: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Create or replace a group.

        Raises:
            ValueError: there are too many groups.
            OSError: the change cannot be made durable; nothing has changed.
        """
        if group.group_name not in self._groups and len(self._groups) >= TABLE_MAX:
            raise ValueError(f"there are {len(self._groups)} groups; allowed: up to {TABLE_MAX}")
        self._replace({**self._groups, group.group_name: group})
        return group

    def delete(self, group: str) -> bool:
        """Delete a group; return whether it existed. Raises OSError like `put`."""
        if group not in self._groups:
            return False
        self._replace({name: kept for name, kept in self._groups.items() if name != group})
        return True

    def take_newer(self, table: SubscriptionGroupTable) -> None:
        """Adopt a replica's table on a master with a new disk, if it has been changed more often than our own."""
        if table.data_version.counter > self._version.counter:
            groups = {**self._groups, **table.groups}
            self.adopt(SubscriptionGroupTable(groups=groups, data_version=table.data_version))

    def disable_consume(self, group: str) -> bool:
        """Forbid a group to consume; return whether that is new. Raises OSError like `put`."""
        known = self._groups.get(group)
        if known is None or not known.consume_enable:
            return False
        self.put(replace(known, consume_enable=False))
        return True

    def _replace(self, groups: dict[str, SubscriptionGroupConfig]) -> None:
        version = DataVersion(timestamp=self._now_ms(), counter=self._version.counter + 1)
        self._file.save(SubscriptionGroupTable(groups=groups, data_version=version).to_json())
        self._groups = groups
        self._version = version

    def names(self) -> list[str]:
        return sorted(self._groups)

    def table(self) -> SubscriptionGroupTable:
        """The whole table, as slaves copy it."""
        return SubscriptionGroupTable(groups=dict(self._groups), data_version=self._version)

    def adopt(self, table: SubscriptionGroupTable) -> bool:
        """Adopt the master's table if its version differs; return whether it did."""
        if table.data_version == self._version:
            return False
        self._file.save(table.to_json())
        self._groups = dict(table.groups)
        self._version = table.data_version
        return True
