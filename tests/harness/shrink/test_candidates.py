"""Simpler campaigns of a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from staticfire.faults.model.anchor import Anchor
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.campaign.ops import PlannedOp
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.shrink.candidates import PASSES
from staticfire.harness.shrink.reducer import Deletion, Reducer, Variants
from staticfire.harness.shrink.timing import last_event_s
from staticfire.harness.shrink.trials import Moments, Trial, Witness

BROKER = "broker-a-0"


def op(node: str, at_s: float, key: str, **more: object) -> PlannedOp:
    value = {"topic": "StaticfireTopic", "key": key, "size": 700, **more}
    return PlannedOp(node=node, at_s=at_s, f="send", value=value)


def fault(fault_id: int, kind: str, at_s: float, **params: int) -> PlannedFault:
    return PlannedFault(
        fault_id=fault_id,
        kind=kind,
        at_s=at_s,
        duration_s=2.0,
        targets=(BROKER,),
        params=params,
    )


@pytest.fixture(scope="module")
def trial() -> Trial:
    """Two masters with a slave each, three faults; p1-0, sent at 10 s, is lost by the cut at 12 s."""
    plan = (fault(0, "kill", 4.0), fault(1, "power-cut", 12.0), fault(2, "pause", 20.0))
    options = {"time_s": 30.0, "followers": (1, 1), "plan": plan, "producers": 3, "queues": 4}
    campaign = draw_campaign(3, {**options, "batch_share": 0.2, "illegal_share": 0.01})
    ops = [op(f"producer-{1 + n % 3}", n / 2, f"p{n % 3}-{n // 3}") for n in range(60)]
    ops.append(op("producer-2", 10.0, "p1-99"))
    return Trial(
        campaign=replace(campaign, ops=tuple(ops)),
        digest="",
        sends=len(ops),
        fingerprint=None,
        ops=tuple(ops),
        struck={n: Moments(one.at_s, one.until_s) for n, one in enumerate(plan)},
        witness=Witness(shown_s=10.1, fault_id=1, key="p1-99", send_s=10.0, ack_s=10.1),
    )


def of(name: str, trial: Trial) -> list[Campaign]:
    """The candidates of a pass; of a deletion those without each single item."""
    one = PASSES[name]
    if isinstance(one, Variants):
        return [candidate.campaign for candidate in one.of(trial)]
    assert isinstance(one, Deletion)
    items = one.items(trial)
    kept = [one.with_items(trial, [*items[:n], *items[n + 1 :]]) for n in range(len(items))]
    return [candidate.campaign for candidate in kept if candidate is not None]


@pytest.mark.parametrize("name", sorted(PASSES.keys() - {"as data", "earlier", "end"}))
def test_every_pass_has_candidates(name: str, trial: Trial) -> None:
    assert of(name, trial)


def test_ops_become_data_once(trial: Trial) -> None:
    assert of("as data", trial) == []
    drawn = replace(trial, campaign=replace(trial.campaign, ops=None))
    assert [one.ops for one in of("as data", drawn)] == [trial.ops]


def test_the_witness_alone_comes_first(trial: Trial) -> None:
    first, second, *_ = of("witness", trial)
    assert (first.plan, [one.keys for one in first.ops or ()]) == ((), [("p1-99",)])
    [anchored] = second.plan
    assert anchored.after == Anchor(event="ack", key="p1-99", delay_ms=1900.0)
    assert second.time_s == 17.0  # 3 s behind the end of the fault


def test_ops_around_the_witness_are_those_before_it(trial: Trial) -> None:
    sizes = [(len(one.plan), len(one.ops or ())) for one in of("witness", trial)]
    assert sizes == [
        (0, 1),
        (1, 1),
        (1, 1),
        (0, 8),
        (1, 8),
        (1, 8),
        (2, 1),
        (2, 8),
        (1, 30),
        (2, 30),
    ]


def test_faults_of_the_nodes_that_hold_what_failed_are_tried_alone(trial: Trial) -> None:
    assert trial.witness is not None
    elsewhere = replace(fault(3, "kill", 11.0), targets=("broker-b-0",))
    campaign = replace(trial.campaign, plan=(*trial.campaign.plan, elsewhere))
    held = replace(trial.witness, nodes=frozenset({BROKER, "broker-a-1"}))
    plans = [
        [one.fault_id for one in tried.plan]
        for tried in of("witness", replace(trial, campaign=campaign, witness=held))
    ]
    assert plans.count([0, 1]) == 2  # with the ops near the failure, and with all before it


def test_small_campaigns_have_few_faults_in_their_order_and_the_op_of_the_witness(
    trial: Trial,
) -> None:
    tried = of("small", trial)
    assert {len(one.plan) for one in tried} == {1, 2, 3}  # of the three that there are
    for one in tried:
        assert [fault.fault_id for fault in one.plan] == sorted(
            fault.fault_id for fault in one.plan
        )
        assert sum("p1-99" in op.keys for op in one.ops or ()) == 1
        assert one.load_s < trial.campaign.load_s
        assert all(op.at_s <= one.load_s for op in one.ops or ())
    assert len({one.seed for one in tried}) == len(tried)
    assert tried == of("small", trial)


def test_small_campaigns_prefer_faults_of_the_nodes_that_hold_what_failed(trial: Trial) -> None:
    assert trial.witness is not None
    elsewhere = tuple(
        replace(fault(number, "kill", 1.0 * number), targets=("broker-b-0",))
        for number in range(10, 14)
    )
    campaign = replace(trial.campaign, plan=(*trial.campaign.plan[:1], *elsewhere))
    held = replace(trial.witness, nodes=frozenset({BROKER}))
    tried = of("small", replace(trial, campaign=campaign, witness=held))
    with_it = sum(any(one.fault_id == 0 for one in of.plan) for of in tried)
    assert with_it > 0.6 * len(tried)  # one of five faults; a half without the preference


def test_a_small_campaign_is_not_made_anew(trial: Trial) -> None:
    campaign = replace(trial.campaign, ops=trial.ops[:10])
    assert of("small", replace(trial, campaign=campaign)) == []


def test_a_cut_inside_an_operation_may_come_inside_the_flush_of_the_witness(trial: Trial) -> None:
    plan = (fault(1, "power-cut-in-operation", 8.0, sync=40),)
    early = replace(
        trial,
        campaign=replace(trial.campaign, plan=plan),
        struck={1: Moments(8.0, 12.0)},
    )
    forms = [one.plan[0] for one in of("anchors", early)]
    assert [one.params for one in forms] == [{"sync": 1}, {"operation": 1}]
    assert {one.after for one in forms} == {Anchor(event="append", node=BROKER, key="p1-99")}


def test_files_of_the_log_become_smaller_the_smallest_first(trial: Trial) -> None:
    small = replace(trial, campaign=replace(trial.campaign, log_file_bytes=16_384))
    assert [one.log_file_bytes for one in of("log files", small)] == [4096, 8192]
    smallest = replace(trial, campaign=replace(trial.campaign, log_file_bytes=4096))
    assert of("log files", smallest) == []


def test_thinned_ops_are_spread_evenly_and_those_of_the_witness_stay(trial: Trial) -> None:
    assert trial.witness is not None
    witness = replace(trial.witness, key="p1-3")  # the eleventh op
    tried = of("thinned", replace(trial, witness=witness))
    every_fourth = tuple(op for n, op in enumerate(trial.ops) if n % 4 == 0 or n == 10)
    assert every_fourth in [one.ops for one in tried]
    assert all(one.plan == trial.campaign.plan for one in tried)
    assert tried == of("thinned", replace(trial, witness=witness))


def test_ops_are_thinned_for_each_producer_and_each_queue(trial: Trial) -> None:
    """Ops of two producers take turns, and so do two keys: every second op is of one of them alone."""
    ops = tuple(op(f"producer-{1 + n % 2}", n / 2, f"k-{n}") for n in range(40))
    keyed = tuple(
        replace(op, value={**op.value, "sharding_key": f"s-{n // 2 % 2}"})
        for n, op in enumerate(ops)
    )
    campaign = replace(trial.campaign, ops=keyed)
    halves = of("thinned", replace(trial, campaign=campaign, ops=keyed, witness=None))[-3:]
    numbers = [[int(key[2:]) for op in one.ops or () for key in op.keys] for one in halves]
    assert numbers[0] == [n for n in range(40) if n % 2 == 0]
    assert numbers[1] == [n for n in range(40) if n % 4 < 2]
    assert numbers[2] == [n for n in range(40) if n % 2 == 0]


def test_few_ops_are_not_thinned(trial: Trial) -> None:
    assert of("thinned", replace(trial, ops=trial.ops[:10])) == []


def test_traffic_that_must_go_on_becomes_thin_in_few_tries(trial: Trial) -> None:
    """The failure needs an op in every ten seconds of 30, which no removal of a third of the run leaves."""
    tried = 0

    def try_all(candidates: Sequence[Trial]) -> tuple[int, Trial] | None:
        nonlocal tried
        tried += len(candidates)
        for index, one in enumerate(candidates):
            ops = one.campaign.ops or ()
            if {int(op.at_s // 10) for op in ops} >= {0, 1, 2}:
                return index, replace(one, ops=ops)
        return None

    passes = {"thinned": PASSES["thinned"]}
    reducer = Reducer(passes, try_all, lambda _name, _step: None, lambda one: repr(one.campaign), 1)
    assert len(reducer.reduce(trial).ops) == 10
    assert tried == 1


def test_faults_keep_their_times_when_others_go(trial: Trial) -> None:
    for candidate in of("faults", trial):
        assert set(map(repr, candidate.plan)) < set(map(repr, trial.campaign.plan))


def test_ops_of_a_producer_that_goes_are_done_by_another(trial: Trial) -> None:
    one = of("clients", trial)[0]
    assert one.producers == 1
    assert {op.node for op in one.ops or ()} == {"producer-1"}
    assert len(one.ops or ()) == len(trial.ops)


def test_the_whole_run_comes_earlier(trial: Trial) -> None:
    late = replace(trial.campaign, ops=tuple(replace(op, at_s=op.at_s + 3) for op in trial.ops))
    for one in of("earlier", replace(trial, campaign=late)):
        assert one.ops is not None
        by_s = late.ops[0].at_s - one.ops[0].at_s if late.ops else 0.0
        assert [round(a.at_s - b.at_s, 6) for a, b in zip(late.plan, one.plan, strict=True)] == [
            round(by_s, 6)
        ] * 3
        assert one.time_s == pytest.approx(30.0 - by_s)


def test_pauses_become_shorter_and_nothing_changes_its_place(trial: Trial) -> None:
    sparse = replace(trial.campaign, ops=(op("producer-1", 1.0, "a"), op("producer-1", 25.0, "b")))
    for one in of("pauses", replace(trial, campaign=sparse)):
        assert one.ops is not None
        times = [one.ops[0].at_s, *(fault.at_s for fault in one.plan), one.ops[1].at_s]
        assert times == sorted(times)
        assert one.load_s < 30.0
        assert all(fault.duration_s > 0 for fault in one.plan)


def test_the_load_ends_behind_the_last_event(trial: Trial) -> None:
    short = replace(trial, campaign=replace(trial.campaign, ops=trial.ops[:10]))
    assert last_event_s(short) == 22.0
    assert [one.load_s for one in of("end", short)] == [22.5, 25.0]


def test_no_node_goes_that_a_fault_strikes(trial: Trial) -> None:
    for candidate in of("nodes", trial):
        shape = candidate.topology()
        targets = {target for planned in candidate.plan for target in planned.targets}
        assert targets <= {*shape.servers, *shape.clients}


def test_all_options_go_back_to_their_defaults_at_once(trial: Trial) -> None:
    changed = replace(trial.campaign, batch_share=0.2, illegal_share=0.01, acl=True, seed=9)
    boldest = of("options", replace(trial, campaign=changed))[0]
    assert (boldest.batch_share, boldest.illegal_share, boldest.acl) == (0.0, 0.0, False)
    assert (boldest.seed, boldest.plan, boldest.ops) == (9, changed.plan, changed.ops)


def test_a_batch_becomes_one_of_its_messages(trial: Trial) -> None:
    messages = [{"key": "p0-0", "size": 90}, {"key": "p0-1", "size": 91}]
    batch = PlannedOp(
        node="producer-1",
        at_s=1.0,
        f="send_batch",
        value={"topic": "StaticfireTopic", "messages": messages},
    )
    found = of("plainer", replace(trial, campaign=replace(trial.campaign, ops=(batch,))))
    assert [one.ops[0].keys for one in found if one.ops and one.ops[0].f == "send"] == [
        ("p0-0",),
        ("p0-1",),
    ]


def test_bodies_become_small_and_times_round(trial: Trial) -> None:
    assert {op.value["size"] for op in of("sizes", trial)[0].ops or ()} == {100}
    odd = replace(trial.campaign, plan=(fault(0, "kill", 4.4321),), time_s=29.7)
    one = of("rounded", replace(trial, campaign=odd))[0]
    assert (one.plan[0].at_s, one.time_s) == (4.0, 30.0)
