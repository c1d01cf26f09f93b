"""Key-value pairs by namespace: the only thing a name server keeps on disk (RocketMQ: KVConfigManager)."""

from __future__ import annotations

from system_under_test.store.metadata_file import MetadataFile

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"  # RocketMQ, NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG

Table = dict[str, dict[str, str]]


class KvConfig:
    """Every change is durable before it counts; a change that cannot be saved raises OSError and does not happen."""

    def __init__(self, file: MetadataFile) -> None:
        self._file = file
        self._table: Table = {}

    def load(self) -> None:
        """Read the file; a missing one is an empty table.

        Raises:
            StoreError: there is a file, but it cannot be used (RocketMQ would start empty and overwrite it).
        """
        saved = (self._file.load() or {}).get("configTable")
        self._table = {}
        if isinstance(saved, dict):
            for namespace, pairs in saved.items():
                if isinstance(pairs, dict):
                    self._table[str(namespace)] = {str(key): str(pairs[key]) for key in pairs}

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def pairs(self, namespace: str) -> dict[str, str] | None:
        """All pairs of a namespace, or None if it was never used."""
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        self._save({**self._table, namespace: {**self._table.get(namespace, {}), key: value}})

    def delete(self, namespace: str, key: str) -> None:
        if self.get(namespace, key) is None:
            return
        pairs = {name: value for name, value in self._table[namespace].items() if name != key}
        self._save({**self._table, namespace: pairs})

    def _save(self, table: Table) -> None:
        self._file.save({"configTable": table})
        self._table = table
