"""Prints what a run will make and break in an external cluster, before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.admin import READER
from staticfire.harness.report.quantities import with_noun
from staticfire.harness.report.verdict_lines import WIDTH

# What kinds of fault break, by the first part of the need's name.
BROKEN = {
    "network": "links between its clients and the servers, at a proxy here",
    "process": "its own clients",
    "client": "its own clients",
    "cluster": "its own topics and groups",
}
SPARES = "spares    servers are neither stopped nor configured; no other topic, group or client is touched"


def external_lines(campaign: Campaign, addresses: Sequence[str]) -> list[str]:
    """Return the cluster's own description, what the run makes there, and what its plan breaks."""
    c = campaign
    low, high = c.payload_bytes
    lines = [
        *_cluster(c, addresses),
        f"load      {c.producers} producers, think {c.think_ms:g} ms, {low}-{high} bytes, {c.consumers} consumers",
        f"makes     {'; '.join(_made(c))}; the group {READER}; deleted at the end, with the retry and dead-letter "
        "topics of the groups",
        *_broken([c]),
        SPARES,
    ]
    return [part for line in lines for part in _wrapped(line)]


def external_hunt_lines(campaigns: Sequence[Campaign], addresses: Sequence[str]) -> list[str]:
    """Return the same for a hunt: `campaigns`, at least one, run one after the other on this cluster."""
    first = campaigns[0]
    names = {f"staticfire-{c.token}-<seed>-..." for c in campaigns}
    lines = [
        *_cluster(first, addresses),
        f"load      {with_noun(len(campaigns), 'seed')}, one after the other, with {first.load_s:g} s of load each",
        f"makes     for each seed topics on each master and groups, {', '.join(sorted(names))}; the group {READER}; "
        "deleted at the end of the seed, with the retry and dead-letter topics of the groups",
        *_broken(campaigns),
        SPARES,
    ]
    return [part for line in lines for part in _wrapped(line)]


def _cluster(campaign: Campaign, addresses: Sequence[str]) -> list[str]:
    c = campaign
    where = f" at {', '.join(addresses)}" if addresses else ""
    return [
        f"cluster   {with_noun(c.coordinators, 'name server')}{where}; {', '.join(map(_broker, c.brokers))}",
        f"judged    by {c.flush} flush and {c.replication} replication; the options --flush, --replication and --mode "
        "say what the cluster promises",
    ]


def _wrapped(line: str) -> list[str]:
    return wrap(line, WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False)


def _made(campaign: Campaign) -> list[str]:
    from staticfire.harness.environments.real.external.address import (
        traces_of,  # this need includes the proxy
    )

    groups: dict[str, list[str]] = {}
    for topic, group in traces_of(campaign):
        groups.setdefault(topic, []).append(group)
    return [
        f"topic {topic} on each master, {'group' if len(names) == 1 else 'groups'} {', '.join(names)}"
        for topic, names in groups.items()
    ]


def _broken(campaigns: Sequence[Campaign]) -> list[str]:
    kinds: dict[str, list[str]] = {}
    for kind in dict.fromkeys(planned.kind for c in campaigns for planned in c.plan):
        kinds.setdefault(BROKEN[FAULTS[kind].needs[0].partition(".")[0]], []).append(kind)
    if not kinds:
        return ["breaks    nothing"]
    return [f"breaks    {what}: {', '.join(names)}" for what, names in kinds.items()]


def _broker(text: str) -> str:
    name, _, number = text.rpartition(":")
    return f"{name} (master)" if number == "0" else f"{name} (slave {number})"
