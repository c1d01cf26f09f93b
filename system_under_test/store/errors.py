"""Errors that the store raises. Each text is one sentence: what is wrong, the value, what is allowed."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot be opened or used as asked."""


class StoreLocked(StoreError):
    """Another process holds the store's lock."""


class NoSpace(StoreError):
    """The disk is full: a file could not be made, and nothing has changed. It may work later."""


class NoBuffer(StoreError):
    """The transient store pool is empty: the next file could not be begun, and nothing has changed."""


class RecordInvalid(StoreError):
    """Replicated bytes are not valid records for their offset; none of them was appended."""
