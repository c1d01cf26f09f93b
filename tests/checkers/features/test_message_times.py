"""Born and store times of messages: within the bounds that their sends and deliveries set."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.guarantees.facts import FaultFacts
from tests.checkers.stories import Story
from tests.support import reference_contents
from tests.support.history_language import fault

EPOCH_MS = 1_700_000_000_000
KNOWN: dict[str, object] = {"wall_epoch_ms": EPOCH_MS, "replica_sets": {"b": ("n0", "n1")}}


def found(
    born_s: float,
    stored_s: float,
    *,
    faults: tuple[FaultFacts, ...] = (),
    end: str = "ok",
    opened: bool = True,
    **sent: object,
) -> set[str]:
    """A message that is sent from 10.0 s to 10.01 s and delivered at 20 s."""
    story = Story()
    if opened:
        story.op(1.0, "ok", "open", {}, process=0, node="p1")
    story.send(10.0, "a", end, **sent)  # type: ignore[arg-type]  # the fields of a send
    times = [EPOCH_MS + round(1000 * at_s) for at_s in (born_s, stored_s)]
    value = {
        "group": "g",
        "topic": "t",
        "broker": "b",
        "queue": 0,
        "messages": [["a", 0, 0, True, 0, [None, None, None, *times, None, None]]],
    }
    story.op(20.0, "invoke", "consume", value, process=100)
    story.op(20.1, "ok", "consume", value, process=100)
    return story.counts("message_times", **KNOWN, faults=faults)


@pytest.mark.parametrize(
    ("born_s", "stored_s", "anomalies"),
    [
        (10.0, 10.005, set()),
        (9.95, 10.1, set()),  # clocks are read at different moments
        (9.8, 10.005, {"wrong_born_time"}),
        (10.2, 10.005, {"wrong_born_time"}),
        (-3600, 10.005, {"wrong_born_time"}),
        (10.0, 9.8, {"wrong_store_time"}),  # before it was sent
        (10.0, 10.2, {"wrong_store_time"}),  # after it was acknowledged
        (10.0, 3600.0, {"wrong_store_time"}),
    ],
)
def test_a_message_is_born_and_stored_while_it_is_sent(
    born_s: float, stored_s: float, anomalies: set[str]
) -> None:
    assert found(born_s, stored_s) == anomalies


@pytest.mark.parametrize(("stored_s", "anomalies"), [(19, set()), (20.2, {"wrong_store_time"})])
@pytest.mark.parametrize(
    "sent",
    [
        {"attempts": 2},
        {"end": "info"},
        {"delay_level": 2, "delay_ms": 5000},
        {"transaction": "commit"},
    ],
)
def test_what_is_stored_later_is_stored_before_it_is_shown(
    sent: dict[str, object], stored_s: float, anomalies: set[str]
) -> None:
    assert found(10.0, stored_s, **sent) == anomalies  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("node", "at_s", "anomalies"),
    [
        ("n1", 5, {"wrong_born_time"}),
        ("p1", 5, {"wrong_store_time"}),
        ("p1", 30, {"wrong_born_time", "wrong_store_time"}),
        ("n9", 5, {"wrong_born_time", "wrong_store_time"}),
    ],
)
def test_a_clock_that_a_fault_set_wrong_proves_nothing_from_then_on(
    node: str, at_s: float, anomalies: set[str]
) -> None:
    skew = fault("clock_skew", node, at_s=at_s, healed_s=at_s + 1)
    assert found(-3600, 3600, faults=(skew,)) == anomalies


@pytest.mark.parametrize(("node", "wrong"), [("p1", set()), ("n0", {"wrong_born_time"})])
def test_a_producer_whose_node_is_not_known_may_be_any_client(node: str, wrong: set[str]) -> None:
    """A broker's clock is no producer's."""
    stepped = fault("clock_skew", node, at_s=5.0, healed_s=30.0)
    story = found(9.0, 10.005, faults=(stepped,), opened=False)
    assert story - {"wrong_store_time"} == wrong


def test_a_fault_that_did_not_bite_set_no_clock_wrong() -> None:
    skew = fault("clock_skew", "p1", at_s=5, healed_s=6, bitten=False)
    assert found(-3600, 10.005, faults=(skew,)) == {"wrong_born_time"}


def test_without_the_wall_time_of_the_run_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "wall_epoch_ms", None)
    assert found(-3600, 3600) == set()


@pytest.mark.parametrize(
    ("topic", "stored_s", "tries", "anomalies"),
    [
        ("%DLQ%g", 14.95, 1, set()),
        ("%DLQ%g", 14.8, 1, {"wrong_store_time"}),  # first given out at 15 s, and sent back later
        ("%DLQ%g", 14.8, 2, set()),  # nothing was delivered of which it can be a copy
        ("%RETRY%g", 14.8, 1, set()),  # a client that cannot send back counts by itself
    ],
)
def test_a_dead_letter_is_stored_after_its_group_was_given_the_message(
    topic: str, stored_s: float, tries: int, anomalies: set[str]
) -> None:
    story = Story().send(10.0, "a").consume(13.0, "a", 0, group="h").consume(15.0, "a", 0, "info")
    stored_ms = EPOCH_MS + round(1000 * stored_s)
    contents = [None, None, None, None, stored_ms, None, None]
    value = {"group": "g", "topic": topic, "broker": "b", "queue": 0}
    story.op(30.0, "ok", "consume", {**value, "messages": [["a", 0, 0, True, tries, contents]]})
    assert story.counts("message_times", **KNOWN) == anomalies


@pytest.mark.parametrize(
    ("stored_s", "given", "reported", "anomalies"),
    [
        (20.05, 1, ["ok"], set()),
        (20.2, 1, ["ok"], {"wrong_store_time"}),  # a broker said at 20 s that it has it
        (20.2, 1, ["info"], set()),  # it may have been sent once more
        (20.2, 1, ["copied"], set()),  # the request that had no answer may arrive late
        (20.05, 1, ["elsewhere"], set()),
        (20.2, 1, ["elsewhere"], {"wrong_store_time"}),  # not at the broker that was sent the copy
        (20.2, 1, ["third attempt"], set()),  # an earlier one may arrive late
        (20.2, 1, ["not counted"], set()),
        (20.2, 1, [], set()),
        (20.2, 2, ["ok"], set()),  # by the other member, which does not tell
        (20.2, 2, ["ok", "ok"], {"wrong_store_time"}),
        (20.2, 2, ["ok", "copied"], set()),
    ],
)
def test_nothing_delays_a_dead_letter(
    stored_s: float, given: int, reported: list[str], anomalies: set[str]
) -> None:
    story = Story().send(10.0, "a")
    for number in range(given):
        story.consume(15.0 + number, "a", 0, "info")
    for end in reported:
        attempts = {"elsewhere": 1, "third attempt": 3}
        holder = "b" if end in ("ok", "info", "copied") else "c"
        place = {"group": "g", "topic": "t", "broker": holder, "queue": 0}
        value = {**place, "messages": [["a", 0, 0]], "copied": end not in ("ok", "info")}
        if end != "not counted":
            value["attempts"] = attempts.get(end, 1)
        story.op(20.0, "info" if end == "info" else "ok", "send_back", value, process=100)
    contents = [None, None, None, None, EPOCH_MS + round(1000 * stored_s), None, None]
    value = {"group": "g", "topic": "%DLQ%g", "broker": "b", "queue": 0}
    story.op(30.0, "ok", "consume", {**value, "messages": [["a", 0, 0, True, 1, contents]]})
    assert story.counts("message_times", **KNOWN) == anomalies


def random_story(random: Random) -> Story:
    """Sends that overlap with what was skewed, and deliveries with times near the cut points."""
    story = Story().op(1.0, "ok", "open", {}, process=0, node="p1")
    kinds: list[dict[str, object]] = [
        {},
        {"attempts": 2},
        {"transaction": "commit"},
        {"delay_ms": 100, "delay_level": 1},
    ]
    for number in range(4):
        end = random.choice(["ok", "ok", "info"])
        story.send(10.0 + number, f"k{number}", end, **random.choice(kinds))  # type: ignore[arg-type]
    for number in range(8):
        sent = random.randrange(4)
        times = [
            random.choice([None, EPOCH_MS + 10_000 + 1000 * sent + random.randrange(-150, 11_000)])
            for _ in range(2)
        ]
        topic = random.choice(["t", "t", "%RETRY%g", "%DLQ%g"])
        group, tries = random.choice(["g", "g", "h"]), random.choice([0, 0, 1, 2])
        value = {
            "group": group,
            "topic": topic,
            "broker": "b",
            "queue": 0,
            "messages": [
                [f"k{sent}", sent, 0, True, tries, [None, None, None, *times, None, None]]
            ],
        }
        for type_ in ("invoke", "ok"):
            story.op(20.0 + number, type_, "consume", value, process=100)
        if random.random() < 0.5:
            end = random.choice(["ok", "ok", "info"])
            reported = {"group": group, "topic": "t", "broker": random.choice("bbc"), "queue": 0}
            reported["messages"] = [[f"k{sent}", sent, tries]]
            reported["copied"] = random.random() < 0.4
            reported["attempts"] = random.choice([1, 1, 2])
            story.op(12.0 + number, end, "send_back", reported, process=100)  # type: ignore[arg-type]
    return story


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
def test_the_kernel_finds_what_the_reference_finds(seed: int) -> None:
    random = Random(seed)
    story, node, at_s = (
        random_story(random),
        random.choice(["p1", "n1", "n9"]),
        random.choice([5, 24]),
    )
    faults = (fault("clock_skew", node, at_s=at_s, healed_s=at_s + 1),)
    expected = reference_contents.times(
        story.ops, EPOCH_MS, {"b": ("n0", "n1")}, {node: at_s * 10**9}
    )
    verdict = story.verdict("message_times", **KNOWN, faults=faults)
    by_anomaly: Counter[str] = Counter()
    for (anomaly, *_), times in expected.items():
        by_anomaly[anomaly] += times
    assert verdict.counts == by_anomaly
