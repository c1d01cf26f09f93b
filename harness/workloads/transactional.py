"""Transactions: consumers get what was committed, never what was rolled back; brokers ask about the rest."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from staticfire.checkers.model.history import Op
from staticfire.checkers.op_kinds.values import ConsumeReport, SendValue
from staticfire.faults.model.draws import pick
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.port import TO_BE_ASKED
from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.workload import Workload

ASKED_SHARE = 0.15  # share of transactions whose end the producer reports only when the broker asks
# Share of transactions whose end no producer knows: brokers ask as often as they may, and give up.
UNDECIDED_SHARE = 0.02
UNDECIDED = "unknown"
# Share of transactions whose message has a delay level, which producers remove (RocketMQ: sendMessageInTransaction).
DELAYED_SHARE = 0.1
DELAY_LEVELS = (1, 2, 3, 4, 5)
DECISIONS = ("commit", "commit", "rollback")
# Seconds (RocketMQ: CHECK_IMMUNITY_TIME_IN_SECONDS), longer than the time after which brokers ask about others.
IMMUNITIES_S = (4, 5, 6, 7, 8, 9)


class Transactions(KeyedSends):
    """Makes each message a transaction. Any producer of the group can answer a broker's question."""

    f = "transact"

    def __init__(self, random: Random, campaign: Campaign) -> None:
        super().__init__(random, campaign)
        self._delay_random = Random(f"staticfire/{campaign.seed}/delayed transactions")
        self._immune_random = Random(f"staticfire/{campaign.seed}/immune transactions")
        self._asked_share = campaign.asked_share or ASKED_SHARE
        self._immune_share = campaign.immune_share

    def _dress(self, process: int, message: SendValue) -> None:
        decision = pick(self._random, DECISIONS)
        share = self._random.random()
        asked = share < self._asked_share
        if share < UNDECIDED_SHARE:
            decision = UNDECIDED
        message |= {
            "transaction": decision,
            "state": UNDECIDED if asked else decision,
            "answers": [decision],
        }
        if self._delay_random.random() < DELAYED_SHARE:
            message["delay_level"] = pick(self._delay_random, DELAY_LEVELS)
        if self._immune_share and self._immune_random.random() < self._immune_share:
            immunity_s = pick(self._immune_random, IMMUNITIES_S)
            message["check_after_s"] = immunity_s


def awaits(ops: Sequence[Op], _now_ns: int) -> str | None:
    """Count transactions whose half message is safely stored, that will be committed, and that no consumer got yet."""
    waiting: dict[str, None] = {}
    seen: dict[str, None] = {}  # a consumer may get the message before the producer gets its answer
    for op in ops:
        if op.f == "send":
            send: SendValue = op.value
            if send.get("transaction") == "commit" and (op.type == "ok" or op.error == TO_BE_ASKED):
                waiting[send["key"]] = None
        elif op.f == "consume":
            delivery: ConsumeReport = op.value
            for message in delivery["messages"]:
                seen[message[0]] = None
    left = sum(key not in seen for key in waiting)
    return f"{left} committed transactions that no consumer has seen" if left else None


TRANSACTIONAL = Workload(
    name="transactional",
    summary="committed transactions are delivered, rolled-back ones never; brokers ask about open ones, then give up",
    generator=Transactions,
    awaits=awaits,
    settle_s=120.0,
    options={
        "batch_share": 0.0,
        "one_way_share": 0.0,
        "acks_min": 50,
    },  # half of them are committed at once
    broker_properties={
        "transactionTimeOut": "3000",
        "transactionCheckInterval": "5000",
        "transactionCheckMax": "13",  # the last check comes after all faults, and before the run ends
    },
    lacks={"cpp": "it is not asked for transactions"},
)
