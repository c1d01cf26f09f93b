"""Rewrites the `.properties` file that a node was started with, after its options have changed over the network."""

from __future__ import annotations

from collections.abc import Container

from staticfire.system_under_test.configuration.java_properties import (
    format_properties,
    parse_properties,
)
from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.metadata_file import replace_atomically


def rewrite_config_file(storage: Storage, path: str, known: Container[str], text: str) -> None:
    """Set the options of `text` in the file; names in it that this node does not know stay. Raises OSError."""
    before = parse_properties(_read(storage, path))
    others = {name: value for name, value in before.items() if name not in known}
    replace_atomically(storage, path, (format_properties(others) + text).encode())


def _read(storage: Storage, path: str) -> str:
    if not storage.exists(path):
        return ""
    file = storage.open(path)
    try:
        return file.pread(file.size(), 0).decode(errors="replace")
    finally:
        file.close()
