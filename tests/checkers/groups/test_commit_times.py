"""Times of commits: members that commit late or not at all, and members that need not commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.groups.commit_times import COMMIT_TIMES
from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import fault, history
from tests.support.one_checker import read_ops
from tests.support.reference_commit_times import late


def check(*lines: str, **changes: object) -> Verdict:
    columns, context = read_ops(history(*lines), **changes)
    return COMMIT_TIMES.check(columns, context)


BEGIN = (
    *("1 ok open node=c1 group=g t=0.1", "2 ok open node=c2 group=g t=0.2"),
    *("1 ok assign 0 t=0.5", "1 ok commit_to 0 t=0.6", "0 ok send a t=1", "1 ok consume a t=2"),
)
END = ("9 ok drain t=40",)
TAKEN = ("2 ok assign 0 t=6.5",)


def found(*lines: str, **changes: object) -> list[str]:
    return [finding.detail for finding in check(*BEGIN, *lines, *END, **changes).findings]


def test_a_member_that_commits_nothing_is_late() -> None:
    [finding] = check(*BEGIN, *END).findings

    assert (finding.anomaly, finding.key, finding.group) == ("commit_late", "a", "g")
    assert "process 1 had finished it, and committed nothing of the queue for 8" in finding.detail


@pytest.mark.parametrize(
    ("line", "is_late"),
    [
        ("1 ok commit 0:1 t=9.9", False),
        ("1 ok commit 0:0 t=9.9", False),  # `offsets` judges the offset
        ("1 ok commit 0:1 t=10.5", True),
        ("2 ok commit 0:1 t=9.9", True),  # another member
        ("1 ok commit 1:1 t=9.9", True),  # another queue
        ("1 ok assign t=9.5", False),  # no other member took the queue
    ],
)
def test_a_member_commits_within_the_interval_and_a_request(line: str, is_late: bool) -> None:
    assert bool(found(line)) is is_late


@pytest.mark.parametrize("of", ["commit_to", "consume", "assign"])
def test_without_a_report_there_is_no_judgement(of: str) -> None:
    lines = [line for line in BEGIN if f" {of} " not in line]
    assert not check(*lines, *END).findings


def test_a_member_is_judged_by_the_reports_of_its_own_node() -> None:
    lines = [line.replace("1 ok commit_to", "2 ok commit_to") for line in BEGIN]
    assert not check(*lines, *END).findings
    again = ("3 ok open node=c1 group=g t=30", "3 ok commit_to 0 t=31")
    assert check(*lines, *again, *END).findings


def test_an_application_that_chooses_its_queues_commits_when_it_wants() -> None:
    assert not found(assigned=("g",))


def test_a_member_of_a_broadcasting_group_saves_its_offsets() -> None:
    lines = [line for line in BEGIN if "commit_to" not in line]
    known = {"broadcasting": ("g",)}
    assert not check(*lines, *END, **known).findings  # the client does not report it
    assert not check(*lines, "2 ok commit 0:0 t=3", *END, **known).findings  # this one does not
    [finding] = check(*lines, "1 ok commit 0:0 t=12", *END, **known).findings
    assert finding.key == "a"


@pytest.mark.parametrize(
    ("lines", "is_late"),
    [
        (("1 ok assign t=6", *TAKEN), True),
        (("1 ok commit 0:1 t=5.9", "1 ok assign t=6", *TAKEN), False),
        (("1 ok assign t=6", "1 ok commit 0:1 t=6.1", *TAKEN), True),
        (("1 ok assign t=6",), False),  # it may not know the broker any more
    ],
)
def test_a_member_commits_before_another_one_takes_the_queue(
    lines: tuple[str, ...], is_late: bool
) -> None:
    assert bool(found(*lines)) is is_late


def test_a_member_of_an_orderly_group_commits_after_its_listener_has_finished() -> None:
    assert not found("1 ok assign t=6", *TAKEN, "1 ok commit 0:1 t=6.6", orderly=("g",))


@pytest.mark.parametrize(
    ("kind", "line", "is_late"),
    [
        ("graceful_stop", (), True),
        ("graceful_stop", ("1 ok commit 0:1 t=5.2",), False),
        ("kill", (), False),
    ],
)
def test_a_member_that_is_asked_to_stop_commits_once_more(
    kind: str, line: tuple[str, ...], is_late: bool
) -> None:
    stop = fault(kind, "c1", at_s=5, healed_s=30)
    assert bool(found(*line, faults=(stop,))) is is_late


@pytest.mark.parametrize(
    ("of", "is_late"),
    [
        (fault("pause", "n0", at_s=4, healed_s=5), False),
        (fault("pause", "n0", at_s=13, healed_s=14), True),
        (fault("pause", "n1", at_s=4, healed_s=5), True),  # another broker
        (fault("pause", "c1", at_s=4, healed_s=5), False),
        (fault("pause", "c3", at_s=4, healed_s=5), True),  # another client
    ],
)
def test_only_a_fault_that_keeps_the_member_from_its_broker_excuses_it(
    of: FaultFacts, is_late: bool
) -> None:
    assert bool(found(faults=(of,))) is is_late


PAUSE = fault("pause", "n0", at_s=4, healed_s=5)
AMNESIA = fault("name_server_amnesia", "ns-1", at_s=4, healed_s=5)
SENT, RECEIVED = "0 ok send b t=8", "1 ok consume b t=13"


@pytest.mark.parametrize("of", [PAUSE, AMNESIA])
@pytest.mark.parametrize(
    ("lines", "is_late"),
    [
        ((SENT, RECEIVED), False),  # it may have been fetched before
        ((SENT.replace("8", "11.1"), RECEIVED), True),
        ((SENT, "1 ok commit_to 0 t=11.1", RECEIVED), True),
        ((SENT, "1 ok commit_to 0 t=10.9", RECEIVED), False),
        ((SENT, "1 ok commit_to 0 broker=c t=11.1", RECEIVED), False),
        ((SENT, "2 ok commit_to 0 t=11.1", RECEIVED), False),  # another member
        ((SENT, RECEIVED, "1 ok commit_to 0 t=13.1"), False),  # not before it had finished
        ((SENT, RECEIVED.replace("13", "38.1")), True),  # each member knows the broker again
    ],
)
def test_a_member_that_has_used_its_broker_since_a_fault_knows_it(
    of: FaultFacts, lines: tuple[str, ...], is_late: bool
) -> None:
    lines = ("1 ok commit 0:1 t=2.5", *lines, "9 ok drain t=60")
    known = {"faults": (of,), "coordinators": ("ns-1",)}
    assert bool(check(*BEGIN, *lines, **known).findings) is is_late


@pytest.mark.parametrize(("sent_s", "is_late"), [(8, False), (11.1, True)])
def test_a_member_that_knows_its_broker_commits_before_it_gives_the_queue_up(
    sent_s: float, is_late: bool
) -> None:
    left = ("1 ok assign t=14", "2 ok assign 0 t=14.5")
    lines = ("1 ok commit 0:1 t=2.5", f"0 ok send b t={sent_s}", RECEIVED, *left, *END)
    assert bool(check(*BEGIN, *lines, faults=(PAUSE,)).findings) is is_late


def test_a_member_that_stops_together_with_its_broker_need_not_commit() -> None:
    stop = fault("graceful_stop", "c1", at_s=5, healed_s=30)
    assert found(faults=(stop,))
    assert not found(faults=(replace(stop, targets=("n0", "c1")),))


@pytest.mark.parametrize(
    ("struck", "is_late"),
    [(("n0",), True), (("n1",), True), (("n0", "n1"), False)],
)
def test_a_follower_takes_commits_only_while_its_leader_is_away(
    struck: tuple[str, ...], is_late: bool
) -> None:
    pauses = {
        "n0": fault("pause", "n0", at_s=-9, healed_s=-8),
        "n1": fault("pause", "n1", at_s=4, healed_s=5),
    }
    known = {"replica_sets": {"b": ("n0", "n1")}, "replication": "sync"}
    assert bool(found(faults=tuple(pauses[node] for node in struck), **known)) is is_late


def test_a_member_that_saves_its_offsets_need_not_know_the_broker() -> None:
    lines = (*BEGIN, "1 ok commit 0:1 t=2.5", SENT, RECEIVED, *END)
    assert not check(*lines, faults=(PAUSE,)).findings
    assert check(*lines, faults=(PAUSE,), broadcasting=("g",)).findings
    near = fault("pause", "n0", at_s=9, healed_s=10)
    assert not check(*lines, faults=(near,), broadcasting=("g",)).findings


STEPS = st.lists(
    st.tuples(
        st.sampled_from([1, 2]),
        st.sampled_from(
            ["consume", "consume", "commit", "commit_to", "assign", "assign 0", "wait"]
        ),
    ),
    min_size=3,
    max_size=14,
)
PAUSES = st.tuples(st.integers(-50, 20), st.integers(1, 4))  # start and length in seconds


def played(steps: list[tuple[int, str]]) -> list[str]:
    """A history in which a step takes two seconds, and a message is sent a second before it is consumed."""
    lines = [*BEGIN[:2], "1 ok assign 0 t=0.8"]
    lines += ["1 ok commit_to 0 t=0.9", "2 ok commit_to 0 t=0.9"]
    for number, (process, step) in enumerate(steps):
        words = {
            "consume": f"consume k{number}",
            "commit": "commit 0:0",
            "commit_to": "commit_to 0",
        }.get(step, step)
        at_s = 2 * number + 2
        if step == "consume":
            lines.append(f"0 ok send k{number} t={at_s - 1}")
        if step != "wait":
            lines.append(f"{process} ok {words} t={at_s}")
    return [*lines, f"9 ok drain t={2 * len(steps) + 2}"]


def referred(lines: list[str], pause: tuple[int, int] | None = None) -> Counter[tuple[Any, ...]]:
    if pause is None:
        return late(history(*lines))
    start_s, length_s = pause
    return late(history(*lines), (start_s * NS_PER_S, (start_s + length_s) * NS_PER_S))


def reasons(verdict: Verdict) -> Counter[tuple[Any, ...]]:
    """(key, reason) of each finding."""
    words = ("for 8", "gave", "stopped")
    return Counter(
        (finding.key, next(word for word in words if word in finding.detail))
        for finding in verdict.findings
    )


@pytest.mark.slow
@given(STEPS)
def test_against_a_plain_reference(steps: list[tuple[int, str]]) -> None:
    lines = played(steps)
    assert reasons(check(*lines)) == referred(lines)


@pytest.mark.slow
@given(STEPS, PAUSES)
def test_against_a_plain_reference_with_a_pause(
    steps: list[tuple[int, str]], pause: tuple[int, int]
) -> None:
    lines = played(steps)
    of = fault("pause", "n0", at_s=pause[0], healed_s=sum(pause))
    assert reasons(check(*lines, faults=(of,))) == referred(lines, pause)


@pytest.mark.slow
def test_each_reason_occurs_in_random_histories_with_and_without_an_excuse() -> None:
    seen: set[tuple[str, bool]] = set()

    @settings(max_examples=400)
    @given(STEPS, PAUSES)
    def look(steps: list[tuple[int, str]], pause: tuple[int, int]) -> None:
        lines = played(steps)
        judged = referred(lines, pause)
        for one in referred(lines):
            seen.add((one[1], one in judged))

    look()
    assert seen == {(reason, found) for reason in ("for 8", "gave") for found in (False, True)}
