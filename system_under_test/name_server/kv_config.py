"""Key-value pairs by namespace, in a file (RocketMQ: KVConfigManager)."""

from __future__ import annotations

from staticfire.system_under_test.store.metadata_file import MetadataFile

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"  # RocketMQ, NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG

# RocketMQ has no limits. Each change writes the whole table.
ENTRIES_MAX = 10_000  # namespaces and pairs
SIZE_MAX = 2 << 20  # characters of all of them

Table = dict[str, dict[str, str]]


class KvConfig:
    """The table of pairs. Every change is durable before it takes effect; one that cannot be saved raises OSError."""

    def __init__(self, file: MetadataFile) -> None:
        self._file = file
        self._table: Table = {}

    def load(self) -> None:
        """Read the file; without one the table is empty.

        Raises StoreError if the file cannot be used (RocketMQ would start empty and overwrite it).
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
        """All pairs of a namespace; None if it was never used."""
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a pair. Raises ValueError if the table would be too large, OSError if it cannot be saved."""
        wanted = {**self._table, namespace: {**self._table.get(namespace, {}), key: value}}
        if entries_of(wanted) > ENTRIES_MAX or size_of(wanted) > SIZE_MAX:
            wanted = {name: pairs for name, pairs in wanted.items() if pairs}
        entries, size = entries_of(wanted), size_of(wanted)
        if entries > ENTRIES_MAX or size > SIZE_MAX:
            raise ValueError(
                f"the table would have {entries} namespaces and pairs of {size} characters;"
                f" allowed: up to {ENTRIES_MAX} of {SIZE_MAX}"
            )
        self._save(wanted)

    def delete(self, namespace: str, key: str) -> None:
        if self.get(namespace, key) is None:
            return
        pairs = {name: value for name, value in self._table[namespace].items() if name != key}
        self._save({**self._table, namespace: pairs})

    def _save(self, table: Table) -> None:
        self._file.save({"configTable": table})
        self._table = table


def entries_of(table: Table) -> int:
    """The number of namespaces and pairs."""
    return len(table) + sum(map(len, table.values()))


def size_of(table: Table) -> int:
    """The number of characters of all names and values."""
    return sum(map(len, table)) + sum(
        len(key) + len(value) for pairs in table.values() for key, value in pairs.items()
    )
