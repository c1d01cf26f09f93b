"""Wrongs of what a message consists of besides its body: id, tag, properties, size, times; copies and originals."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import BARE, Delivery, Sent
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import MS, Run, S, Site, choose, without
from tests.checkers.mutations.pick import pick_delivery, pick_sent, two_groups

CONTENTS = (
    BARE  # the place of a message's contents: id, tag, properties, born, stored, size, origin
)
ID, TAG, PROPERTIES, BORN, STORED, SIZE, ORIGIN = range(7)
SINGLE = without("bulk", "forwarded")  # ops of many messages hold no contents


def _contents(run: Run, delivery: Delivery) -> list[Any] | None:
    message = Draft(run).messages(delivery)[delivery.slot]
    return list(message[CONTENTS]) if len(message) > CONTENTS and message[CONTENTS] else None


def _with_contents(run: Run, like: Delivery, place: int, item: Any) -> Run:
    contents = _contents(run, like)
    assert contents is not None
    contents[place] = item
    draft = Draft(run)
    draft.set_field(like, CONTENTS, contents)
    return draft.finish()


def _changed(
    run: Run, rng: Random, site: Site, place: int, change: Callable[[Any], Any]
) -> Run | None:
    like = pick_delivery(
        run, rng, site, lambda d: (c := _contents(run, d)) is not None and c[place] is not None
    )
    contents = _contents(run, like)
    assert contents is not None
    return _with_contents(run, like, place, change(contents[place]))


@KINDS.mutation(
    "properties_changed",
    "the properties of a delivered message are not those that were sent",
    workloads=SINGLE,
)
def properties_changed(run: Run, rng: Random, site: Site) -> Run | None:
    return _changed(run, rng, site, PROPERTIES, lambda digest: digest ^ 0x5A5A5A5A)


@KINDS.mutation(
    "tag_changed", "a message is delivered with another tag than it was sent with", workloads=SINGLE
)
def tag_changed(run: Run, rng: Random, site: Site) -> Run | None:
    return _changed(run, rng, site, TAG, lambda tag: "blue" if tag == "red" else "red")


@KINDS.mutation(
    "id_changed",
    "a message is delivered with another id than its sender was told",
    workloads=SINGLE,
)
def id_changed(run: Run, rng: Random, site: Site) -> Run | None:
    return _changed(run, rng, site, ID, lambda digest: digest ^ 2)


@KINDS.mutation(
    "shared_id",
    "the answer to a send has the unique message id of another message, and its deliveries have it, too",
    workloads=SINGLE,
)
def two_messages_with_one_id(run: Run, rng: Random, site: Site) -> Run | None:
    def is_identified(sent: Sent) -> bool:
        return sent.at is not None and "id" in run.ops[sent.at].value

    first, second = (pick_sent(run, rng, site, is_identified) for _ in range(2))
    if first.key == second.key or first.at is None or second.at is None:
        return None
    draft = Draft(run)
    shared = run.ops[first.at].value["id"]
    draft.alter(second.at, id=shared)
    for like in run.by_key.get(second.key, ()):
        contents = _contents(run, like)
        if contents is not None and contents[ID] is not None:
            draft.set_field(like, CONTENTS, [shared, *contents[1:]])
    return draft.finish()


@KINDS.mutation(
    "size_changed",
    "a message is delivered with another size than it was sent with",
    workloads=SINGLE,
)
def size_changed(run: Run, rng: Random, site: Site) -> Run | None:
    return _changed(run, rng, site, SIZE, lambda size: size + rng.choice((-1, 1, 4096)))


@KINDS.mutation(
    "wrong_store_time",
    "a message says that it was stored an hour before it was born",
    workloads=SINGLE,
)
def stored_before_born(run: Run, rng: Random, site: Site) -> Run | None:
    return _changed(run, rng, site, STORED, lambda stored: stored - 3_600_000)


@KINDS.mutation(
    "properties_changed",
    "two groups are given one message with different properties",
    workloads=without("bulk", "forwarded", "request-reply", "broadcast"),
)
def properties_differ_between_groups(run: Run, rng: Random, site: Site) -> Run | None:
    wide = two_groups(run)
    last = list(wide.facts.groups)[-1]
    like = pick_delivery(
        wide,
        rng,
        site,
        lambda d: (
            d.group == last and len(wide.by_key[d.key]) > 1 and _contents(wide, d) is not None
        ),
    )
    return _with_contents(wide, like, PROPERTIES, 12_345)


@KINDS.mutation(
    "store_time_changed",
    "two groups are given one record with two store times",
    workloads=without("bulk", "forwarded", "request-reply", "broadcast"),
)
def store_times_differ_between_groups(run: Run, rng: Random, site: Site) -> Run | None:
    wide = two_groups(run)
    last = list(wide.facts.groups)[-1]
    like = pick_delivery(
        wide,
        rng,
        site,
        lambda d: (
            d.group == last
            and len(wide.by_key[d.key]) > 1
            and (c := _contents(wide, d)) is not None
            and c[STORED] is not None
        ),
    )
    contents = _contents(wide, like)
    if not wide or not like or contents is None:
        return None
    return _with_contents(wide, like, STORED, contents[STORED] + 1)


def _copy(run: Run, rng: Random, site: Site, prefix: str) -> Delivery:
    """A delivery of a copy that brokers made."""
    return choose(
        rng,
        run.deliveries,
        lambda d: (
            d.topic.startswith(prefix)
            and run.is_at(site, d.time_ns)
            and d.key in run.sends
            and _contents(run, d) is not None
        ),
    )


@KINDS.mutation(
    "properties_changed", "a retry has lost the properties of its original", workloads=("retry",)
)
def retry_lost_properties(run: Run, rng: Random, site: Site) -> Run | None:
    like = _copy(run, rng, site, "%RETRY%")
    return _with_contents(run, like, PROPERTIES, 98_765)


@KINDS.mutation("tag_changed", "a retry has another tag than its original", workloads=("retry",))
def retry_changed_tag(run: Run, rng: Random, site: Site) -> Run | None:
    like = _copy(run, rng, site, "%RETRY%")
    return _with_contents(run, like, TAG, "violet")


@KINDS.mutation(
    "id_changed", "a retry has another message id than its original", workloads=("retry",)
)
def retry_changed_id(run: Run, rng: Random, site: Site) -> Run | None:
    like = _copy(run, rng, site, "%RETRY%")
    return _with_contents(run, like, ID, 3_141_592)


@KINDS.mutation(
    "origin_changed", "a retry says that it is a copy of what lies elsewhere", workloads=("retry",)
)
def retry_of_other_origin(run: Run, rng: Random, site: Site) -> Run | None:
    like = _copy(run, rng, site, "%RETRY%")
    contents = _contents(run, like)
    if contents is None or contents[ORIGIN] is None:
        return None
    return _with_contents(run, like, ORIGIN, contents[ORIGIN] + 77)


@KINDS.mutation(
    "properties_changed",
    "a dead letter has lost the properties of its original",
    workloads=("retry",),
)
def dead_letter_lost_properties(run: Run, rng: Random, site: Site) -> Run | None:
    dead = [d for d in run.deliveries if d.topic.startswith("%DLQ%") and d.key in run.sends]
    like = choose(
        rng,
        dead,
        lambda d: (site == "fault") == bool(run.facts.faults) and _contents(run, d) is not None,
    )
    return _with_contents(run, like, PROPERTIES, 55_555)


@KINDS.mutation("born_time_changed", "a retry was born when it was stored", workloads=("retry",))
def retry_born_anew(run: Run, rng: Random, site: Site) -> Run | None:
    like = _copy(run, rng, site, "%RETRY%")
    contents = _contents(run, like)
    if contents is None or contents[STORED] in (None, contents[BORN]):
        return None
    return _with_contents(run, like, BORN, contents[STORED])


def _skewed(run: Run) -> set[str]:
    """Nodes whose wall clock was set wrong."""
    return {node for f in run.facts.faults if f.kind.startswith("clock") for node in f.targets}


def _at_wrong_time(
    run: Run, rng: Random, site: Site, place: int, after: str, by_ms: int
) -> Run | None:
    """All deliveries of one message say that it was born or stored so long before its send or after it was given."""
    epoch_ms, skewed = run.facts.wall_epoch_ms, _skewed(run)
    like = pick_delivery(
        run,
        rng,
        site,
        lambda d: (
            (c := _contents(run, d)) is not None
            and c[place] is not None
            and skewed.isdisjoint(run.nodes_of_broker(d.broker))
            and run.ops[run.sends[d.key].begin].node not in skewed
        ),
    )
    if epoch_ms is None:
        return None
    told = [d for d in run.by_key[like.key] if d.topic == like.topic]
    at_ns = {
        "send": run.sends[like.key].begin_ns,
        "delivery": max(d.begin_ns for d in told),
    }[after]
    draft = Draft(run)
    for delivery in told:
        contents = _contents(run, delivery)
        if contents is not None:
            contents[place] = epoch_ms + at_ns // MS + by_ms
            draft.set_field(delivery, CONTENTS, contents)
    return draft.finish()


@KINDS.mutation(
    "wrong_born_time", "a message was born half a second before it was sent", workloads=SINGLE
)
def born_before_send(run: Run, rng: Random, site: Site) -> Run | None:
    return _at_wrong_time(run, rng, site, BORN, "send", -500)


@KINDS.mutation("wrong_born_time", "a message was born after it was delivered", workloads=SINGLE)
def born_after_delivery(run: Run, rng: Random, site: Site) -> Run | None:
    return _at_wrong_time(run, rng, site, BORN, "delivery", 500)


@KINDS.mutation(
    "wrong_store_time", "a message was stored half a second before it was sent", workloads=SINGLE
)
def stored_before_send(run: Run, rng: Random, site: Site) -> Run | None:
    return _at_wrong_time(run, rng, site, STORED, "send", -500)


@KINDS.mutation("wrong_store_time", "a message was stored after it was delivered", workloads=SINGLE)
def stored_after_delivery(run: Run, rng: Random, site: Site) -> Run | None:
    return _at_wrong_time(run, rng, site, STORED, "delivery", 500)


@KINDS.mutation(
    "nonmonotonic_store_time",
    "a message was stored a millisecond before the one below it in its queue",
    workloads=SINGLE,
)
def stored_before_its_neighbour(run: Run, rng: Random, site: Site) -> Run:
    skewed = _skewed(run)
    stored = {(d.place, d.offset): c[STORED] for d in run.deliveries if (c := _contents(run, d))}

    def below(d: Delivery) -> int | None:
        return stored.get((d.place, d.offset - 1))

    like = pick_delivery(
        run,
        rng,
        site,
        lambda d: (
            _contents(run, d) is not None
            and below(d) is not None
            and skewed.isdisjoint(run.nodes_of_broker(d.broker))
        ),
    )
    draft = Draft(run)
    for delivery in run.by_key[like.key]:
        contents = _contents(run, delivery)
        if contents is not None and (delivery.place, delivery.offset) == (like.place, like.offset):
            contents[STORED] = (below(like) or 0) - 1
            draft.set_field(delivery, CONTENTS, contents)
    return draft.finish()


@KINDS.mutation(
    "origin_changed", "a message that was never sent back names an original", workloads=SINGLE
)
def first_delivery_names_an_origin(run: Run, rng: Random, site: Site) -> Run | None:
    like = pick_delivery(run, rng, site, lambda d: d.tries == 0 and _contents(run, d) is not None)
    return _with_contents(run, like, ORIGIN, max(like.physical - 700, 0))


@KINDS.mutation(
    "wrong_store_time", "a dead letter was stored before its last retry", workloads=("retry",)
)
def dead_letter_stored_before_its_retry(run: Run, rng: Random, site: Site) -> Run | None:
    def made_of(dead: Delivery) -> list[Delivery]:
        return [d for d in run.by_key[dead.key] if d.tries == dead.tries - 1]

    like = choose(
        rng,
        [d for d in run.deliveries if d.topic.startswith("%DLQ%") and d.key in run.sends],
        lambda d: (
            (site == "fault") == bool(run.facts.faults)
            and _contents(run, d) is not None
            and len(made_of(d)) == 1
        ),
    )
    epoch_ms = run.facts.wall_epoch_ms
    if epoch_ms is None:
        return None
    stored_ns = made_of(like)[0].begin_ns - S
    return _with_contents(run, like, STORED, epoch_ms + stored_ns // 1_000_000)
