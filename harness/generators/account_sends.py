"""Sends of other accounts, beside the load of a campaign with access control.

Those without a right must be refused (`illegal_sends.py` says how that is judged). A guest may send until
administrators withdraw its right.
"""

from __future__ import annotations

from random import Random
from typing import Any

from faults.draws import pick
from harness.accounts import REFUSED
from harness.campaign import Campaign
from harness.generators.illegal_sends import ILLEGAL, SIZE_BYTES

ACCOUNT = "account"  # the field of a send that names the account, if it is not that of the load
REFUSED_SHARE = 0.02  # of the ops of producers
GUEST_SHARE = 0.04  # of the sends that are alone and answered


class AccountSends:
    """Drawn from a stream of its own; nothing without access control, or where each single send counts."""

    def __init__(self, campaign: Campaign) -> None:
        self._random = Random(f"staticfire/{campaign.seed}/accounts")
        self._topic = campaign.topic
        self._active = campaign.acl and campaign.client == "own" and not campaign.gap_max_s

    def next_refused(self) -> dict[str, Any] | None:
        """The value of a send that must be refused, without its key; None if it is the turn of the load."""
        if not self._active or self._random.random() >= REFUSED_SHARE:
            return None
        why = pick(self._random, tuple(REFUSED))
        return {ILLEGAL: why, ACCOUNT: REFUSED[why], "topic": self._topic, "size": SIZE_BYTES}

    def is_guests_turn(self) -> bool:
        return self._active and self._random.random() < GUEST_SHARE
