"""Files that two recoveries must leave alike, and the one entry that may lack its tag."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from staticfire.harness.store_crash.check import StoreComparison
from staticfire.harness.store_crash.index_files import IndexShape
from staticfire.harness.store_crash.plan import ROOT

LOG = f"{ROOT}/commitlog/00000000000000000000"
QUEUE = f"{ROOT}/consumequeue/TopicA/0/00000000000000000000"
OTHER = f"{ROOT}/consumequeue/TopicA/1/00000000000000000000"
BEFORE = {LOG: b"log", QUEUE: b"entries", OTHER: b"others"}


@pytest.mark.parametrize(
    ("tagless", "now", "changed"),
    [
        (False, BEFORE, []),
        (False, {**BEFORE, f"{OTHER}1": bytes(20)}, []),  # it holds nothing
        (False, {**BEFORE, QUEUE: b"changed"}, [QUEUE]),
        (False, {LOG: b"log", QUEUE: b"entries"}, [OTHER]),
        (True, {**BEFORE, QUEUE: b"changed"}, []),
        (True, {**BEFORE, QUEUE: b"changed", OTHER: b"changed"}, [OTHER]),
        (True, {**BEFORE, LOG: b"changed"}, [LOG]),
    ],
)
def test_only_the_queue_of_an_entry_without_its_tag_may_change(
    tagless: bool, now: dict[str, bytes], changed: list[str]
) -> None:
    disk = SimpleNamespace(snapshot=lambda: now)
    model = SimpleNamespace(puts=[SimpleNamespace(queue=("TopicA", 0), may_lack_tags=tagless)])
    comparison = StoreComparison(
        cast(Any, disk),
        cast(Any, model),
        log_file_size=1024,
        queue_file_size=200,
        index_shape=IndexShape(1, 2),
    )
    assert comparison.changed_since(BEFORE) == changed
