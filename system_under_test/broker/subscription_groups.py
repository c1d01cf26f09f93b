"""Settings of consumer groups (RocketMQ, SubscriptionGroupManager). Durable in config/subscriptionGroup.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from system_under_test.protocol.bodies import DataVersion, SubscriptionGroupConfig
from system_under_test.store.metadata_file import MetadataFile

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


class SubscriptionGroups:
    """The group table. Every change is durable before it is visible to others."""

    def __init__(self, file: MetadataFile, *, auto_create: bool, now_ms: Callable[[], int]) -> None:
        self._file = file
        self._auto_create = auto_create
        self._now_ms = now_ms
        self._groups = {name: SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS}
        self._version = DataVersion(timestamp=now_ms(), counter=0)

    def load(self) -> None:
        """Read subscriptionGroup.json. Raises StoreError."""
        document = self._file.load()
        if document is not None:
            groups, self._version = groups_from_json(document)
            self._groups |= groups

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """The settings of a group, created if that is allowed; None if it is unknown and may not be created."""
        found = self._groups.get(group)
        if found is not None:
            return found
        if self._auto_create or group.startswith(SYSTEM_GROUP_PREFIX):
            return self.put(SubscriptionGroupConfig(group_name=group))
        return None

    def put(self, group: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Create or replace a group. Raises OSError when it cannot be made durable; nothing changes then."""
        groups = {**self._groups, group.group_name: group}
        version = DataVersion(timestamp=self._now_ms(), counter=self._version.counter + 1)
        self._file.save(groups_to_json(groups, version))
        self._groups = groups
        self._version = version
        return group

    def to_json(self) -> dict[str, object]:
        """SubscriptionGroupWrapper: subscriptionGroup.json and the body of code 201."""
        return groups_to_json(self._groups, self._version)

    def adopt(self, document: Mapping[str, object]) -> bool:
        """Take over the master's table if its version differs; return whether it did."""
        groups, version = groups_from_json(document)
        if version == self._version:
            return False
        self._file.save(groups_to_json(groups, version))
        self._groups = groups
        self._version = version
        return True

    def take_newer(self, document: Mapping[str, object]) -> None:
        """For a master with a new disk: take over a replica's copy, if it was changed more often than what we have."""
        groups, version = groups_from_json(document)
        if version.counter > self._version.counter:
            self.adopt(groups_to_json({**self._groups, **groups}, version))


def groups_to_json(
    groups: Mapping[str, SubscriptionGroupConfig], version: DataVersion
) -> dict[str, object]:
    table = {name: group.to_json() for name, group in groups.items()}
    return {"subscriptionGroupTable": table, "dataVersion": version.to_json()}


def groups_from_json(
    document: Mapping[str, object],
) -> tuple[dict[str, SubscriptionGroupConfig], DataVersion]:
    """Read SubscriptionGroupWrapper. Raises ValueError."""
    table = document.get("subscriptionGroupTable", {})
    version = document.get("dataVersion", {})
    if not isinstance(table, Mapping) or not isinstance(version, Mapping):
        raise ValueError("subscriptionGroupTable and dataVersion must be objects")  # noqa: TRY004
    groups = {str(name): SubscriptionGroupConfig.from_json(group) for name, group in table.items()}
    return groups, DataVersion.from_json(version)
