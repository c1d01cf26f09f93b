"""Index files for tests. The usual ones have 20 MB of slots: in memory, and twice on the simulated disk of a broker."""

from __future__ import annotations

from typing import TypedDict


class IndexOptions(TypedDict):
    """What `BrokerConfig` calls them."""

    index_slots: int
    index_numbers: int


SMALL_INDEX: IndexOptions = {"index_slots": 500, "index_numbers": 2000}
