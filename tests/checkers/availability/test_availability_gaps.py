"""Gaps of producers, consumers and messages under load. Times are seconds; the bound is 3 s."""

from __future__ import annotations

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts, RunFacts
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.verdicts.compose import check_run
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import judged_by, only

STARTED = ("0 ok open node=p1 t=0", "7 ok open node=c1 t=0", "7 ok assign 0 t=0.5")
# The load ends with the last send that began.
LOAD_ENDS = ("1 invoke send end node=p2 t=100", "1 fail send end t=100")


def check_gaps(*ops: str, **changes: object) -> Verdict:
    plain = {"producers": ("p1", "p2"), "consumers": ("c1",), "gap_max_s": 3.0}
    return judged_by(
        "availability_gaps", history(*STARTED, *ops), [], facts(**{**plain, **changes})
    )


def found(verdict: Verdict) -> list[str]:
    return [finding.anomaly for finding in verdict.findings]


def sent(key: str, began_s: float, ended_s: float, outcome: str = "ok") -> tuple[str, str]:
    return f"0 invoke send {key} node=p1 t={began_s}", f"0 {outcome} send {key} node=p1 t={ended_s}"


def consumed(key: str, at_s: float) -> tuple[str, str]:
    return f"7 invoke consume {key} t={at_s}", f"7 ok consume {key} t={at_s}"


def crash(node: str, at_s: float, healed_s: float) -> FaultFacts:
    return fault("client_crash", node, at_s=at_s, healed_s=healed_s)


def test_a_campaign_without_a_bound_asks_nothing() -> None:
    run = check_run(history(*STARTED), [], facts())
    assert "availability_gaps" in run.not_applicable


def test_prompt_answers_leave_no_gap_however_long_the_producer_thinks() -> None:
    verdict = check_gaps(
        *sent("a", 1, 1.5), *consumed("a", 2), *sent("b", 90, 92.9), *consumed("b", 94), *LOAD_ENDS
    )
    assert verdict.valid is True
    assert verdict.counts["longest_send_gap_ms"] == 2900
    assert verdict.counts["longest_delivery_gap_ms"] == 1100
    assert verdict.counts["longest_start_gap_ms"] == 500


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_a_send_gap_lasts_from_the_first_try_to_the_acknowledgement(outcome: str) -> None:
    verdict = check_gaps(
        *sent("a", 10, 11, outcome), *sent("b", 12, 13.5), *consumed("b", 14), *LOAD_ENDS
    )
    [finding] = verdict.findings
    assert (finding.anomaly, finding.key, finding.time_ns) == ("send_gap", "a", 10_000_000_000)
    assert finding.detail.startswith("nothing of p1 was acknowledged for 3.500s")


def test_a_weak_status_does_not_end_a_gap() -> None:
    weak = ("0 invoke send a node=p1 t=1", "0 info send a node=p1 t=2 error=SLAVE_NOT_AVAILABLE")
    assert found(check_gaps(*weak, *sent("b", 2, 4.5), *consumed("b", 5), *LOAD_ENDS)) == [
        "send_gap"
    ]


def test_a_gap_may_last_until_the_load_ends() -> None:
    [finding] = check_gaps("0 invoke send a node=p1 t=60", *LOAD_ENDS).findings
    assert finding.detail.startswith("nothing of p1 was acknowledged for 40.000s")


def test_sends_after_the_load_do_not_count() -> None:
    probe = ("9 invoke send probe node=probe t=200", "9 info send probe node=probe t=230")
    assert check_gaps(*LOAD_ENDS, *probe).valid is True


def test_a_producer_that_the_plan_crashed_is_excused_until_it_is_back() -> None:
    ops = (*sent("a", 10, 12, "info"), *sent("b", 40, 41), *consumed("b", 42), *LOAD_ENDS)
    assert found(check_gaps(*ops)) == ["send_gap"]
    assert check_gaps(*ops, faults=(crash("p1", 12, 39.5),)).valid is True
    assert found(check_gaps(*ops, faults=(crash("p2", 12, 39.5),))) == ["send_gap"]


def test_a_new_producer_that_never_succeeds_has_a_gap() -> None:
    ops = (*sent("a", 10, 12, "info"), *sent("b", 20, 23, "fail"), *LOAD_ENDS)
    [finding] = check_gaps(*ops, faults=(crash("p1", 12, 17),)).findings
    assert (finding.anomaly, finding.key) == ("send_gap", "b")


def start_gaps(*ops: str, **changes: object) -> list[Finding]:
    verdict = check_gaps(*ops, *LOAD_ENDS, **changes)
    return [finding for finding in verdict.findings if finding.anomaly == "start_gap"]


def test_a_new_consumer_must_get_a_queue_in_time() -> None:
    back = (*sent("a", 1, 1.1), *consumed("a", 1.2), "8 ok open node=c1 t=30")
    crashed = {"faults": (crash("c1", 20, 30),)}
    assert start_gaps(*back, "8 ok assign 0 t=32.9", **crashed) == []
    [finding] = start_gaps(*back, "8 ok assign 0 t=33.1", **crashed)
    assert finding.detail.startswith("c1 had no queue for 3.100s")
    [finding] = start_gaps(*back, **crashed)
    assert finding.detail.startswith("c1 had no queue for 70.000s")


def test_more_members_than_queues_means_that_some_have_none() -> None:
    one_queue = (*sent("a", 1, 1.1), *consumed("a", 1.2), "8 ok open node=c2 t=0")
    assert start_gaps(*one_queue, consumers=("c1", "c2")) == []
    two_queues = (*one_queue, *sent("b@1:0", 1, 1.1))
    assert len(start_gaps(*two_queues, consumers=("c1", "c2"))) == 1


def test_an_acknowledged_message_must_not_wait_long_for_a_member_of_the_group() -> None:
    late = (*sent("a", 10, 10.5), "8 invoke consume a t=13.6", "8 ok consume a t=13.6")
    [finding] = check_gaps(*late, *LOAD_ENDS).findings
    assert (finding.anomaly, finding.key, finding.group) == ("delivery_gap", "a", "g")
    assert finding.detail.startswith("it waited 3.100s")
    twice = (*sent("a", 10, 10.5), *consumed("a", 11), "8 ok consume a~1 t=50")
    assert check_gaps(*twice, *LOAD_ENDS).valid is True


def test_a_message_that_was_there_before_the_load_waits_from_its_start() -> None:
    def gap_ms(delivered_s: float) -> int:
        early = ("9 invoke send a node=probe t=0", "9 ok send a node=probe t=1")
        opens = ("0 ok open node=p1 t=20", "7 ok open node=c1 t=21", "7 ok assign 0 t=21")
        ops = history(*early, *opens, *consumed("a", delivered_s), *LOAD_ENDS)
        run = check_run(
            ops,
            [],
            facts(producers=("p1", "p2"), consumers=("c1",), gap_max_s=3.0),
            only("availability_gaps"),
        )
        [verdict] = [one for one in run.verdicts if one.checker == "availability_gaps"]
        assert verdict.valid is (delivered_s <= 23)
        return verdict.counts["longest_delivery_gap_ms"]

    assert (gap_ms(22.5), gap_ms(23.5)) == (2500, 3500)


def test_a_failing_listener_is_no_delivery() -> None:
    failed = (*sent("a", 10, 10.5), "7 invoke consume a t=11", "7 info consume a t=11")
    assert found(check_gaps(*failed, *consumed("a", 16), *LOAD_ENDS)) == ["delivery_gap"]


def test_a_message_that_no_member_gets_waits_until_the_load_ends() -> None:
    [finding] = check_gaps(*sent("a", 10, 10.5), *LOAD_ENDS).findings
    assert finding.detail.startswith("it waited 89.500s")


def test_without_any_start_in_the_history_nothing_is_known() -> None:
    only_sends = history("0 invoke send a node=p1 t=1", "0 ok send a t=2")
    verdict = judged_by(
        "availability_gaps", only_sends, [], facts(producers=("p1",), gap_max_s=3.0)
    )
    assert verdict.valid == "unknown"


def test_facts_survive_being_written_down() -> None:
    before = facts(producers=("p1",), consumers=("c1",), gap_max_s=3.0)
    assert RunFacts.from_json(before.to_json()) == before
