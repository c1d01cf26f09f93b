"""ShiViz logs: the first line is the regular expression that parses them, and clocks order the events."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from staticfire.harness.cli import status_of
from staticfire.harness.exports import shiviz
from tests.harness.exports.conftest import Recorded, rewrite

Clock = dict[str, int]


@dataclass(frozen=True, slots=True)
class Event:
    host: str
    clock: Clock
    text: str

    def is_before(self, other: Event) -> bool:
        """Whether one vector clock is less than the other."""
        return self.clock != other.clock and all(
            count <= other.clock.get(host, 0) for host, count in self.clock.items()
        )


def parse(path: Path) -> list[Event]:
    """As ShiViz opens a file: the first line is the expression, an empty second one says that there is one run."""
    regex, delimiter, log = path.read_text().split("\n", 2)
    assert delimiter == ""
    expression = re.compile("^" + regex.replace("(?<", "(?P<") + "$", re.MULTILINE)
    events = [
        Event(found["host"], json.loads(found["clock"]), found["event"])
        for found in expression.finditer(log)
    ]
    assert 2 * len(events) == len(log.splitlines())
    return events


def export(folder: Path, out: Path, *options: str) -> list[Event]:
    assert status_of(["export", str(folder), "--shiviz", str(out), *options]) == 0
    return parse(out)


@pytest.fixture(scope="module")
def events(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    return export(recorded.folder, tmp_path_factory.mktemp("out") / "run.log")


def test_the_clock_of_a_host_counts_its_own_events(events: list[Event]) -> None:
    """ShiViz refuses a log in which it does not, or in which a clock names an event that is not there."""
    counts: defaultdict[str, int] = defaultdict(int)
    for event in events:
        counts[event.host] += 1
        assert event.clock[event.host] == counts[event.host]
    for event in events:
        assert all(1 <= count <= counts[host] for host, count in event.clock.items())


def test_clocks_of_a_host_never_go_back(events: list[Event]) -> None:
    by_host: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_host[event.host].append(event)
    for line in by_host.values():
        assert all(before.is_before(after) for before, after in pairwise(line))


def test_a_send_happens_before_its_copy_and_that_before_its_delivery(
    recorded: Recorded, events: list[Event]
) -> None:
    def first(pattern: str) -> Event:
        return next(event for event in events if re.fullmatch(pattern, event.text))

    given = " ".join(event.text for event in events if event.text.startswith("listener of"))
    keys = sorted(recorded.sent("ok") & set(re.findall(r"\bp\d+-\d+\b", given)))
    assert len(keys) > 10
    for key in keys[:50]:
        sent, stored = first(f"sends {key} to .*"), first(f"has {key}: .*")
        acknowledged = first(f"{key} is acknowledged")
        delivered = first(rf"listener .* given (.*, )?{key}\b.*")
        assert sent.is_before(stored)
        assert stored.is_before(acknowledged)
        assert stored.is_before(delivered)


def test_what_did_not_speak_to_each_other_is_concurrent(events: list[Event]) -> None:
    sends = [event for event in events if event.text.startswith("sends ")]
    firsts = {event.host: event for event in reversed(sends)}
    pairs = [(one, two) for one in firsts.values() for two in firsts.values() if one is not two]
    assert any(not one.is_before(two) and not two.is_before(one) for one, two in pairs)


def test_faults_come_from_the_nemesis(recorded: Recorded, events: list[Event]) -> None:
    struck = [fault for fault in recorded.faults if fault["struck_ns"] is not None]
    said = [event for event in events if event.host == "nemesis" and "strikes" in event.text]
    assert len(said) == len(struck)
    assert any(event.host == "broker-a" and "strikes" in event.text for event in events)


def test_a_name_with_spaces_and_line_ends_is_one_word(damaged: Path, tmp_path: Path) -> None:
    rewrite(damaged, "producer-1", "a b\n{c} \x1b[31m")
    rewrite(damaged, "StaticfireTopic", "\nproducer {}\n")
    events = export(damaged, tmp_path / "nasty")
    assert any(event.host.startswith("a_b") for event in events)
    assert all("\x1b" not in event.host + event.text for event in events)


def test_too_many_events_are_refused(
    recorded: Recorded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(shiviz, "EVENTS_MAX", 20)
    out = tmp_path / "log"
    out.write_text("as it was")
    assert status_of(["export", str(recorded.folder), "--shiviz", str(out)]) == 254
    assert "more than 20 events" in capsys.readouterr().err
    assert out.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [out]
