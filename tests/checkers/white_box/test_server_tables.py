"""Tables of servers: planted losses of settings and progress, and near misses."""

from __future__ import annotations

import os
from collections import Counter
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.verdicts.compose import check_run
from tests.support import reference_server_tables
from tests.support.history_language import facts, fault
from tests.support.server_table_histories import FACTS, server_table_history

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "60")))
PAIR = {"b": ("n0", "n1")}
USUAL, FIVE = {"g": "usual"}, {"g": "retry_queue_nums 5"}
Seen = dict[str, Any]


def seen(at_s: float, kind: str, **fields: Any) -> Seen:
    return {"time_ns": int(at_s * 1e9), "kind": kind, **fields}


def table(
    at_s: float,
    node: str,
    entries: dict[str, Any],
    changes: int = 1,
    *,
    life: int = 1,
    name: str = "groups",
    ready: bool = True,
    emptied: bool = False,
) -> Seen:
    return seen(
        at_s,
        "server_table",
        node=node,
        life=life,
        broker_name="b",
        table=name,
        version=f"{changes}" if name == "groups" else "",
        changes=changes,
        ready=ready,
        emptied=emptied,
        entries=entries,
    )


def delays(at_s: float, node: str, offset: int) -> Seen:
    return table(at_s, node, {"3": offset}, name="delays")


def life(at_s: float, node: str, ended: str | None = None, number: int = 1) -> Seen:
    return seen(at_s, "server_life", node=node, life=number, ended=ended)


def restored(name: str, copy: dict[str, Any], own: dict[str, Any]) -> Seen:
    where = {"node": "n0", "life": 2, "broker_name": "b", "follower": "n1"}
    return seen(60, "restored_table", **where, table=name, copy=copy, own=own)


BEGIN = (
    *(life(0, node) for node in ("n0", "n1")),
    *(table(0, node, USUAL) for node in ("n0", "n1")),
    *(delays(0, node, 0) for node in ("n0", "n1")),
    *(table(0, node, {}, name="offsets") for node in ("n0", "n1")),
)
END = seen(200, "events")
AGAIN = (life(60, "n0", "killed"), life(62, "n0", None, 2))
CHANGED = table(50, "n0", FIVE, 2)
COPIED = table(58, "n1", FIVE, 2)


def verdict(*observations: Seen, **changes: Any) -> Verdict:
    known = {"replica_sets": PAIR, "tables_observed": True, **changes}
    [found] = [
        of
        for of in check_run([], observations, facts(**known)).verdicts
        if of.checker == "server_tables"
    ]
    return found


def found(*observations: Seen, faults: tuple[FaultFacts, ...] = ()) -> list[Finding]:
    return list(verdict(*BEGIN, *observations, END, faults=faults).findings)


@pytest.mark.parametrize(
    ("observations", "words"),
    [
        ((), ""),
        ((CHANGED, COPIED, *AGAIN, table(62, "n0", FIVE, 2, life=2)), ""),
        ((CHANGED, COPIED, *AGAIN, table(62, "n0", USUAL, 1, life=2)),
         "n0: groups after a start, compared with its last process: g: usual, not retry_queue_nums 5"),
        # changed, and changed back: still the table of an earlier time
        ((CHANGED, table(51, "n0", USUAL, 3), table(58, "n1", USUAL, 3), *AGAIN, table(62, "n0", USUAL, 1, life=2)),
         "n0: groups after a start, compared with its last process: an older version"),
        ((CHANGED, COPIED, *AGAIN, table(62, "n0", USUAL, 2, life=2)), "n0: groups after a start"),
        # the process ended between the write and its turn's end
        ((*AGAIN, table(62, "n0", FIVE, 2, life=2), table(63, "n1", FIVE, 2)), ""),
        # a new disk
        ((CHANGED, COPIED, *AGAIN, table(62, "n0", {}, 0, life=2, ready=False, emptied=True)), ""),
        # a follower copies the table anew
        ((CHANGED, COPIED, life(60, "n1", "killed"), life(62, "n1", None, 2), table(62, "n1", USUAL, 1, life=2),
          table(63, "n1", FIVE, 2, life=2)), ""),
    ],
)  # fmt: skip
def test_a_leader_that_starts_has_the_settings_of_its_last_process(
    observations: tuple[Seen, ...], words: str
) -> None:
    findings = [of for of in found(*observations) if of.anomaly == "table_lost"]

    assert [of.detail.startswith(words) for of in findings] == [True] * bool(words)
    assert all(of.broker == "b" for of in findings)


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (restored("groups", FIVE, FIVE), ""),
        (restored("groups", FIVE, {**FIVE, "h": "usual"}), ""),
        (restored("groups", FIVE, USUAL), "n0: groups after the loss of its log, compared with n1: g: usual, not"),
        (restored("offsets", {"t@g 0": 7}, {"t@g 0": 9}), ""),
        (restored("offsets", {"t@g 0": 7}, {"t@g 0": 6}), "n0: offsets after the loss of its log, compared with n1: "),
        (restored("delays", {"3": 7}, {}), "n0: delays after the loss of its log, compared with n1: 3: none, not 7"),
    ],
)  # fmt: skip
def test_a_leader_with_a_new_disk_has_what_its_follower_has(observed: Seen, words: str) -> None:
    findings = found(observed)

    assert [of.anomaly for of in findings] == ["table_lost"] * bool(words)
    assert all(of.detail.startswith(words) for of in findings)


@pytest.mark.parametrize(
    ("observations", "words"),
    [
        ((CHANGED, table(63, "n1", FIVE, 2)), ""),
        ((CHANGED, table(64, "n1", FIVE, 2)),
         "n1: groups for 14.000s unlike those of n0: g: usual, not retry_queue_nums 5"),
        ((CHANGED,), "n1: groups for 150.000s unlike those of n0"),
        # an older version of equal settings
        ((table(50, "n0", USUAL, 3),), "n1: groups for 150.000s unlike those of n0: another version"),
        # it makes a group of its own, which the leader does not have, and loses it again
        ((*(table(s, "n1", {**USUAL, "h": "usual"}, 5) for s in (50, 62)), *(table(s, "n1", USUAL) for s in (61, 73))),
         ""),
        # it does not know its leader yet, or its leader has yet to get its own table back
        ((CHANGED, table(51, "n1", USUAL, ready=False), table(80, "n1", USUAL), table(92, "n1", FIVE, 2)), ""),
        ((CHANGED, table(51, "n1", USUAL, ready=False), table(80, "n1", USUAL), table(94, "n1", FIVE, 2)),
         "n1: groups for 14.000s unlike"),
        ((table(50, "n0", {}, 0, ready=False), table(80, "n0", USUAL)), ""),
        # one of the two does not run
        ((CHANGED, life(60, "n1", "killed"), life(90, "n1", None, 2), table(91, "n1", FIVE, 2, life=2)), ""),
        ((CHANGED, life(60, "n0", "killed")), ""),
        ((delays(50, "n0", 4), delays(60, "n1", 5)), ""),
        # always behind, and each time in time
        ((delays(50, "n0", 4), delays(60, "n0", 9), delays(60.5, "n1", 4), delays(70, "n1", 9)), ""),
        ((delays(50, "n0", 4), delays(60, "n0", 9), delays(60.5, "n1", 3), delays(70, "n1", 9)), "n1: delays for 20"),
        ((delays(50, "n0", 4), delays(59, "n1", 5), delays(60, "n0", 9), delays(70, "n1", 9)), ""),
        ((table(50, "n0", {"t@g 0": 4}, name="offsets"), table(63, "n1", {"t@g 0": 5}, name="offsets")), ""),
        ((table(50, "n0", {"t@g 0": 4}, name="offsets"),), "n1: offsets for 150.000s unlike those of n0: t@g 0: none"),
        ((delays(50, "n0", 4), delays(60, "n1", 3)), "n1: delays for 150.000s unlike those of n0: 3: 0, not 4"),
    ],
)  # fmt: skip
def test_a_follower_copies_the_tables_of_its_leader(
    observations: tuple[Seen, ...], words: str
) -> None:
    findings = [of for of in found(*observations) if of.anomaly == "table_uncopied"]

    assert [of.detail.startswith(words) for of in findings] == [True] * bool(words)
    assert all(of.broker == "b" for of in findings)


LATE = (CHANGED, table(80, "n1", FIVE, 2))


@pytest.mark.parametrize(
    ("struck", "count"),
    [
        (fault("pause", "n0", at_s=52, healed_s=58), 0),
        (fault("partition", "n1", at_s=52, healed_s=58), 0),
        (fault("partition", "n1", at_s=52, healed_s=53), 1),
        (fault("pause", "n2", at_s=52, healed_s=58), 1),
        (fault("pause", "n0", at_s=30, healed_s=40), 1),
    ],
)
def test_faults_of_the_two_give_time(struck: FaultFacts, count: int) -> None:
    assert [of.anomaly for of in found(*LATE, faults=(struck,))] == ["table_uncopied"] * count


def test_a_server_without_observations_is_named() -> None:
    judged = verdict(*(of for of in BEGIN if of["node"] != "n1"), END)

    assert (judged.valid, judged.reason) == ("unknown", "not observed: tables of n1")


def test_an_older_run_is_not_asked() -> None:
    assert check_run([], (END,), facts(replica_sets=PAIR)).valid is not False


def test_in_faithful_mode_a_lost_table_is_informational() -> None:
    of = verdict(*BEGIN, restored("groups", FIVE, {}), END, mode="faithful")

    assert (of.valid, of.findings[0].anomaly) == (True, "table_lost")


@pytest.mark.slow
@STEADY
@given(st.integers(0, 2**32))
def test_random_tables(seed: int) -> None:
    run = server_table_history(seed)
    expected = reference_server_tables.wrong_tables(run.observations, FACTS, run.faults)
    judged = verdict(*run.observations, faults=run.faults, **FACTS)

    counted = Counter(anomaly for anomaly, *_ in expected)
    for anomaly in ("table_lost", "table_uncopied"):
        assert judged.counts.get(anomaly, 0) == counted[anomaly]
    shown = Counter(
        (of.anomaly, of.broker, of.detail.partition(":")[0], of.time_ns // 10**9)
        for of in judged.findings
    )
    assert shown <= Counter(expected)


def test_every_wrong_occurs() -> None:
    """Or the histories would prove nothing."""
    counted: Counter[str] = Counter()
    for seed in range(30):
        run = server_table_history(seed)
        wrongs = reference_server_tables.wrong_tables(run.observations, FACTS, run.faults)
        counted.update(chain(of[0] for of in wrongs))
        counted["none"] += not wrongs
    assert set(counted) == {"table_lost", "table_uncopied", "none"}
