"""Candidates with every k-th op: the same load at a lower rate.

Deletion removes contiguous parts of the load. It cannot shrink a failure that needs traffic all the time, even if one
op a second is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.campaign.ops import PlannedOp
from staticfire.harness.shrink.trials import Trial
from staticfire.harness.shrink.witness import explicit

STEPS = (64, 32, 16, 8, 4, 2)
FEW_OPS = 10  # the passes "witness" and "ops" take over below this number
# Ops with the same value are counted together: all, those of a producer, those of a topic's sharding key.
STREAMS: Sequence[Callable[[PlannedOp], Hashable]] = (
    lambda _op: None,
    lambda op: op.node,
    lambda op: (op.value.get("topic"), op.value.get("sharding_key")),
)


def thinned(trial: Trial) -> Iterator[Campaign]:
    """Yield candidates with every 64th, 32nd, ... second op and the ops of the witness, down to FEW_OPS."""
    campaign = explicit(trial)
    assert campaign.ops is not None
    key = trial.witness.key if trial.witness else None
    for step in STEPS:
        for stream_of in STREAMS:
            kept = tuple(_every(campaign.ops, step, stream_of, key))
            if FEW_OPS <= len(kept) < len(campaign.ops):
                yield replace(campaign, ops=kept)


def _every(
    ops: Sequence[PlannedOp],
    step: int,
    stream_of: Callable[[PlannedOp], Hashable],
    key: str | None,
) -> Iterator[PlannedOp]:
    """Yield the first op of each stream and every `step`-th after it, and the ops with the key."""
    passed: Counter[Hashable] = Counter()
    for op in ops:
        stream = stream_of(op)
        if passed[stream] % step == 0 or (key is not None and key in op.keys):
            yield op
        passed[stream] += 1
