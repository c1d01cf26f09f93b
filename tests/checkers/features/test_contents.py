"""Contents of delivered messages against their sends: each column, of plain deliveries and of copies."""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.engine.engine import judge_partitions
from staticfire.checkers.features.contents import CONTENTS_KEPT
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_contents import CONTENTS, VALUE_MAX, digest_of_properties
from tests.support import reference_contents
from tests.support.chunked_kernels import partitions
from tests.support.history_builder import HistoryBuilder
from tests.support.history_language import facts
from tests.support.one_checker import judged_by, read_ops

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "150")))
RETRY, DEAD = "%RETRY%g", "%DLQ%g"
USERS = {"colour": "red"}
SENT = {"tag": "x", "properties": USERS, "id": 77, "size": 100, "attempts": 1}
GIVEN = [77, "x", digest_of_properties(USERS), 1000, 2000, 100, None]


class Script(HistoryBuilder):
    """One message, by default with key p0-0; it lies at offset 0 of queue 0, physical offset 500."""

    def __init__(self, random: Random | None = None) -> None:
        super().__init__(random or Random(0), [10**6])

    def op(self, process: int, type: str, f: str, value: dict[str, Any]) -> None:
        self.pause()
        self.add(process, type, f, value, error="it failed" if type == "info" else None)

    def send(self, *, key: str = "p0-0", type: str = "ok", **asked: Any) -> None:
        value = {"key": key, "topic": "t", **SENT, **asked}
        place = {"broker": "b", "queue": 0, "queue_offset": 0, "physical_offset": 500}
        self.op(0, type, "send", {**value, **place})

    def consume(
        self, contents: list[Any] | None, *, end: str = "ok", topic: str = "t", **row: Any
    ) -> None:
        answered = {"key": "p0-0", "offset": 0, "physical": 500, "body_ok": True, "tries": 0, **row}
        process, group = answered.pop("process", 5), answered.pop("group", "g")
        value = {"group": group, "topic": topic, "broker": "b", "queue": 0}
        messages = [list(answered.values())]
        with_contents = messages if contents is None else [[*messages[0], contents]]
        self.op(process, "invoke", "consume", {**value, "messages": with_contents})
        self.op(process, end, "consume", {**value, "messages": messages})

    def sent_back(self, tries: int, *, copied: bool | None = False) -> None:
        value: dict[str, Any] = {"group": "g", "topic": "t", "broker": "b", "queue": 0}
        value |= {"messages": [["p0-0", 0, tries]]}
        self.op(5, "ok", "send_back", value if copied is None else {**value, "copied": copied})


def changed(**values: Any) -> list[Any]:
    contents = list(GIVEN)
    for name, value in values.items():
        contents[CONTENTS.index(name)] = value
    return contents


def verdict_of(ops: list[Op]) -> Verdict:
    return judged_by("contents", ops, [], facts())


def anomalies_of(ops: list[Op]) -> set[str]:
    return {finding.anomaly for finding in verdict_of(ops).findings}


@pytest.mark.parametrize(
    ("name", "value", "anomaly"),
    [
        ("message_id", 78, "id_changed"),
        ("tag", "y", "tag_changed"),
        ("tag", "", "tag_changed"),
        ("properties", 0, "properties_changed"),
        ("size", 99, "size_changed"),
    ],
)
@pytest.mark.parametrize("topic", ["t", RETRY])
def test_a_delivery_holds_what_was_sent(name: str, value: Any, anomaly: str, topic: str) -> None:
    good, bad = Script(), Script()
    for script, contents in ((good, GIVEN), (bad, changed(**{name: value}))):
        script.send()
        script.consume(GIVEN, end="info")
        script.sent_back(0)
        again = contents if topic == "t" else [*contents[:-1], 500]
        script.consume(again, topic=topic, offset=int(topic == RETRY) * 9)

    assert anomalies_of(good.ops) == set()
    assert anomalies_of(bad.ops) == {anomaly}


def test_the_only_delivery_of_a_message_is_compared_with_its_send() -> None:
    """The screening would clear it."""
    for contents, found in ((GIVEN, set()), (changed(properties=5), {"properties_changed"})):
        script = Script()
        script.send()
        script.consume(contents)
        assert anomalies_of(script.ops) == found


def test_a_message_without_a_tag_has_none() -> None:
    for tag, found in (("", set()), ("x", {"tag_changed"})):
        script = Script()
        script.add(
            0,
            "ok",
            "send",
            {"key": "p0-0", "topic": "t", "broker": "b", "queue": 0, "queue_offset": 0},
        )
        script.consume([None, tag, 0, None, None, None, None])
        assert anomalies_of(script.ops) == found


def test_a_body_holds_its_key_and_a_space_however_small_it_is() -> None:
    for size, found in ((5, set()), (4, {"size_changed"})):
        script = Script()
        script.send(size=1)
        script.consume(changed(size=size))
        assert anomalies_of(script.ops) == found


def test_a_record_keeps_its_store_time() -> None:
    for stored, place, found in (
        (2000, 500, set()),
        (2001, 500, {"store_time_changed"}),
        (2001, 900, set()),  # another record of the same message
    ):
        script = Script()
        script.send()
        script.consume(GIVEN)
        script.consume(changed(stored_ms=stored), group="h", physical=place)
        assert anomalies_of(script.ops) == found


def test_another_attempt_is_born_later() -> None:
    for attempts, found in ((1, {"born_time_changed"}), (2, set()), (0, set())):
        script = Script()
        script.send(attempts=attempts)
        script.consume(GIVEN)
        script.consume(changed(born_ms=1001), offset=1)
        assert anomalies_of(script.ops) == found


@pytest.mark.parametrize(
    ("reports", "found"),
    [
        ([False], {"born_time_changed"}),
        ([True], set()),  # the client made a copy, which is born anew
        ([None], set()),  # it does not say
        ([], set()),
        ([False, True], set()),
    ],
)
def test_a_retry_that_the_broker_made_keeps_the_born_time(
    reports: list[bool | None], found: set[str]
) -> None:
    script = Script()
    script.send()
    script.consume(GIVEN, end="info")
    for copied in reports:
        script.sent_back(0, copied=copied)
    script.consume(changed(born_ms=1001, origin=500), topic=RETRY, tries=1)

    assert anomalies_of(script.ops) == found


def test_an_unreported_failure_may_have_become_a_copy_of_the_client() -> None:
    script = Script()
    script.send()
    script.consume(GIVEN, end="info")
    script.consume(GIVEN, end="info", process=6)
    script.sent_back(0)
    script.consume(changed(born_ms=1001, origin=500), topic=RETRY, tries=1)

    assert anomalies_of(script.ops) == set()


@pytest.mark.parametrize("topic", [RETRY, DEAD])
def test_a_copy_names_its_original(topic: str) -> None:
    for origin, found in (
        (500, set()),
        (77, set()),
        (501, {"origin_changed"}),
        (VALUE_MAX, {"origin_changed"}),  # no id, or no topic of producers
        (None, {"origin_changed"}),
    ):
        script = Script()
        script.send()
        script.consume(GIVEN, end="info")
        script.sent_back(0)
        script.consume(changed(origin=origin), topic=topic, tries=1)
        assert anomalies_of(script.ops) == found


@pytest.mark.parametrize(("origin", "found"), [(None, set()), (500, {"origin_changed"})])
def test_what_was_never_sent_back_names_no_original(origin: int | None, found: set[str]) -> None:
    script = Script()
    script.send()
    script.consume(changed(origin=origin))
    assert anomalies_of(script.ops) == found


def random_history(random: Random) -> list[Op]:
    """Few keys, few values of each column, copies, and much that is not reported."""
    script = Script(random)
    keys = ["p0-0", "p0-1", "p0-2"]
    for key in keys:
        if random.random() < 0.8:
            asked = {"tag": random.choice(["x", "y"])} if random.random() < 0.8 else {}
            value = {"key": key, "topic": "t", **asked, "size": random.choice([1, 5, 100])}
            value |= {"attempts": random.choice([1, 1, 2])}
            if random.random() < 0.7:
                value |= {"id": random.choice([7, 8]), "properties": random.choice([{}, USERS])}
            end = random.choice(["ok", "ok", "info"])
            value |= {"broker": "b", "queue": 0, "queue_offset": keys.index(key)}
            script.op(0, end, "send", {**value, "physical_offset": 500 + keys.index(key)})
    for _ in range(random.randrange(12)):
        contents: list[Any] = [
            random.choice([7, 7, 8, None]),
            random.choice(["x", "x", "y", "", None]),
            random.choice([0, digest_of_properties(USERS), None]),
            random.choice([1, 1, 1, 2, None]),
            random.choice([1, 1, 2, None]),
            random.choice([1, 5, 100, None]),
            random.choice([500, 501, 502, 7, None]),
        ]
        place = random.randrange(3)
        script.consume(
            random.choice([contents, contents, None]),
            end=random.choice(["ok", "info"]),
            topic=random.choice(["t", "t", RETRY, DEAD]),
            key=random.choice([*keys, keys[place], keys[place]]),
            offset=place,
            physical=500 + place,
            tries=random.choice([0, 0, 1, 2]),
            group=random.choice(["g", "g", "h"]),
            process=random.choice([5, 6]),
        )
        if random.random() < 0.6:
            key, tries = random.choice(keys), random.choice([0, 0, 1])
            value = {"group": "g", "topic": "t", "broker": "b", "queue": 0}
            value |= {"messages": [[key, 0, tries]]}
            copied = random.choice([{"copied": False}, {"copied": False}, {"copied": True}, {}])
            script.op(5, random.choice(["ok", "info"]), "send_back", {**value, **copied})
    return script.ops


@pytest.mark.slow
@STEADY
@given(seed=st.integers(0, 2**32))
def test_the_kernel_finds_what_the_reference_finds(seed: int) -> None:
    ops = random_history(Random(seed))
    expected = reference_contents.contents(ops, digest_of_properties)

    by_anomaly: Counter[str] = Counter()
    for (anomaly, _, _), times in expected.items():
        by_anomaly[anomaly] += times
    verdict = verdict_of(ops)
    assert {**verdict.counts, "identified": 0} == {**by_anomaly, "identified": 0}
    found = {(finding.anomaly, finding.key, finding.group) for finding in verdict.findings}
    assert found <= set(expected)


@pytest.mark.slow
@STEADY
@given(seed=st.integers(0, 2**32))
def test_queues_one_by_one_give_the_same(seed: int) -> None:
    ops = random_history(Random(seed))
    columns, context = read_ops(ops)
    parts = [lambda part=part: part for part in partitions(columns, "log", 3)]
    chunks, _ = judge_partitions(parts, columns.names, context, [CONTENTS_KEPT])

    whole = CONTENTS_KEPT.check(columns, context)
    assert chunks["contents"].counts == whole.counts
    assert {str(found) for found in chunks["contents"].findings} == {
        str(found) for found in whole.findings
    }


def test_every_anomaly_occurs_in_random_histories() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        found = reference_contents.contents(random_history(Random(seed)), digest_of_properties)
        seen.update(anomaly for anomaly, *_ in found)

    assert set(seen) == set(CONTENTS_KEPT.anomalies)
