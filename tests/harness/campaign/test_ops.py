"""The workload as data: read, checked, written, and repeated unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.harness.campaign.campaign import CampaignError
from staticfire.harness.campaign.file import read_options, typed_options
from staticfire.harness.campaign.ops import PlannedOp, read_ops
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.draws.limits import check_campaign
from staticfire.harness.runs.simulated_runner import run_simulated

SEND = {"topic": "StaticfireTopic", "key": "p0-0", "size": 100}
OP = {"node": "producer-1", "at_s": 1.5, "f": "send", "value": SEND}


def campaign_with(*rows: dict[str, Any]) -> Any:

    return replace(draw_campaign(1, {"plan": (), "time_s": 10.0}), ops=read_ops(list(rows)))


def test_ops_survive_a_file() -> None:
    campaign = campaign_with(OP, {**OP, "value": {**SEND, "key": "p0-1"}, "at_s": 2.123456789})
    assert read_options(campaign.to_toml(), "file")["ops"] == campaign.ops
    assert campaign.ops[1].at_ns == 2_123_456_789


def test_no_ops_and_drawn_ops_are_two_things() -> None:
    assert read_options(campaign_with().to_toml(), "file")["ops"] == ()
    assert "ops" not in read_options(replace(campaign_with(), ops=None).to_toml(), "file")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {**OP, "colour": 1},
            "op 0 has an unknown entry 'colour'; there are: node, at_s, f, value",
        ),
        ({"node": "producer-1", "at_s": 1.0, "f": "send"}, "op 0 lacks value; it needs node"),
        ({**OP, "at_s": "soon"}, "at_s of op 0 is 'soon'; allowed: a number"),
        ("no table", "op 0 is 'no table'; allowed: a table"),
    ],
)
def test_a_row_that_is_no_op_is_refused(row: Any, words: str) -> None:

    with pytest.raises(CampaignError, match=words):
        typed_options({"ops": [row]}, "file")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node": "producer-9"}, "node of op 0 is 'producer-9'; allowed: producer-1"),
        ({"at_s": 11.0}, "at_s of op 0 is 11; allowed: 0 to 10 seconds"),
        ({"f": "sing"}, "'sing' is no request"),
        ({"value": {"topic": "T", "key": "k"}}, "value of op 0: .*size"),
        ({"value": {**SEND, "f": "send"}}, "value of op 0 has an entry f"),
    ],
)
def test_an_op_that_cannot_be_done_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(CampaignError, match=words):
        check_campaign(campaign_with({**OP, **change}))


def test_a_key_is_used_once() -> None:
    with pytest.raises(CampaignError, match="key of op 1 is 'p0-0'; allowed: each key once"):
        check_campaign(campaign_with(OP, OP))


def test_times_are_checked_in_a_campaign_of_some_producers() -> None:
    op = PlannedOp(node="producer-1", at_s=-1.0, f="send", value=SEND)
    with pytest.raises(CampaignError, match="at_s of op 0 is -1"):
        check_campaign(replace(campaign_with(), ops=(op,)))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"account": "forger", "illegal": "signature"}, "acl is False; allowed: true, as op 0"),
        ({"account": "plain", "illegal": "no TLS"}, "tls is 'disabled'; allowed: enforcing"),
        ({"illegal": "unknown topic"}, "broker_properties"),
    ],
)
def test_what_must_be_refused_can_be(more: dict[str, str], words: str) -> None:
    campaign = campaign_with({**OP, "value": {**SEND, **more}})
    with pytest.raises(CampaignError, match=words):
        check_campaign(replace(campaign, acl=False, tls="disabled", broker_properties=()))


@pytest.mark.slow
def test_the_ops_of_a_run_as_data_make_the_same_history() -> None:
    drawn = draw_campaign(1, {"time_s": 5.0, "plan": ()})
    first = run_simulated(drawn)
    second = run_simulated(replace(drawn, ops=first.begun))
    assert second.begun == first.begun
    # Behind the load, which a pause after the last op ends, the two may differ.
    histories = [
        [(op.time_ns, op.f, op.type) for op in run.ops if op.time_ns < 5_000_000_000]
        for run in (first, second)
    ]
    assert histories[0] == histories[1]
