"""Requests: each gets its own reply or none, and never the reply to another request."""

from __future__ import annotations

from dataclasses import replace

from staticfire.checkers.op_kinds.values import SendValue
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.consumer_spec import ConsumerSpec, plain
from staticfire.harness.workloads.workload import Workload

TIMEOUT_S = 5.0


class Requests(KeyedSends):
    """Makes each message a request."""

    f = "request"

    def _dress(self, process: int, message: SendValue) -> None:
        message["timeout_s"] = TIMEOUT_S


def member(campaign: Campaign, number: int) -> ConsumerSpec:
    return replace(plain(campaign, number), replies=True, consume_batch=1)


REQUEST_REPLY = Workload(
    name="request-reply",
    needs_listener="a listener answers the requests",
    summary="each request gets its own reply, or none",
    generator=Requests,
    membership=member,
    options={"batch_share": 0.0, "one_way_share": 0.0},
    lacks={"cpp": "it has no requests"},
)
