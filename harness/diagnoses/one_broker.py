"""A topic that only one of several masters has, because a producer's first message created it there.

Source: automatic creation of topics in RocketMQ. A producer without a route takes that of TBW102, which names all
brokers. The broker that gets the first message makes the topic and registers it. From then on every client's route has
that broker alone.
"""

from __future__ import annotations

from collections import Counter

from staticfire.harness.results.run_result import RunResult

ACKS_MIN = 10  # fewer messages may all go to one broker by chance


def one_broker(result: RunResult) -> list[str]:
    """Return a paragraph for each topic whose messages all went to one of several masters."""
    living = result.facts.living
    masters = [name for name in result.facts.replica_sets if living is None or name in living]
    acked: dict[str, Counter[str]] = {}
    for op in result.ops:
        if op.f == "send" and op.type == "ok" and op.node != "probe":
            acked.setdefault(op.value["topic"], Counter())[op.value["broker"]] += 1
    return [
        _paragraph(result, topic, counts, masters)
        for topic, counts in sorted(acked.items())
        if len(masters) > 1 and len(counts) == 1 and counts.total() >= ACKS_MIN
    ]


def _paragraph(result: RunResult, topic: str, counts: Counter[str], masters: list[str]) -> str:
    (broker,) = counts
    others = [name for name in masters if name != broker]
    text = f"All {counts.total()} acknowledged messages of {topic} went to {broker}; {', '.join(others)} got none"
    if not result.campaign.auto_topic:
        return f"{text}."
    return (
        f"{text}. The topic did not exist: the first producer was given the route of TBW102, {broker} got its "
        f"first message, made the topic and registered it, and since the next refresh (30 s) every route names "
        f"{broker} alone. Create topics on all masters before they are used, and switch autoCreateTopicEnable off."
    )
