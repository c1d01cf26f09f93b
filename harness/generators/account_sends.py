"""Sends of other accounts beside the load, in campaigns with access control or enforced TLS.

Brokers must refuse sends without a right and sends without TLS (`illegal_sends.py` says how that is judged). A guest
may send until administrators withdraw its right.
"""

from __future__ import annotations

from random import Random
from typing import Final

from staticfire.faults.model.draws import pick
from staticfire.harness.accounts import PLAIN, REFUSED
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.generators.illegal_sends import ILLEGAL, SIZE_BYTES, SendToRefuse

ACCOUNT: Final = "account"  # field of a send with its account, if that is not the load's
REFUSED_SHARE = 0.02  # share of the ops of producers
GUEST_SHARE = 0.04  # share of the single, answered sends


class AccountSends:
    """Draws sends of other accounts from a stream of its own; none where each single send counts."""

    def __init__(self, campaign: Campaign) -> None:
        self._random = Random(f"staticfire/{campaign.seed}/accounts")
        self._topic = campaign.topic
        is_free = campaign.client == "own" and not campaign.gap_max_s
        self._has_guest = campaign.acl and is_free
        self._refused: dict[str, str] = {}  # reason for the refusal -> the account
        if is_free and campaign.acl:
            self._refused |= REFUSED
        if is_free and campaign.tls == "enforcing":
            self._refused["no TLS"] = PLAIN

    def next_refused(self) -> SendToRefuse | None:
        """Return the value, without its key, of a send that brokers must refuse; None if the load sends next."""
        if not self._refused or self._random.random() >= REFUSED_SHARE:
            return None
        why = pick(self._random, tuple(self._refused))
        return {ILLEGAL: why, ACCOUNT: self._refused[why], "topic": self._topic, "size": SIZE_BYTES}

    def is_guests_turn(self) -> bool:
        return self._has_guest and self._random.random() < GUEST_SHARE
