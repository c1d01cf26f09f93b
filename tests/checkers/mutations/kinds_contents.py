"""Wrongs of what a message consists of besides its body: id, tag, properties, size, times; copies and originals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import BARE, Delivery, Sent
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import MS, NoSuchSite, Run, S, without
from tests.checkers.mutations.planting import Planting

CONTENTS = (
    BARE  # the place of a message's contents: id, tag, properties, born, stored, size, origin
)
ID, TAG, PROPERTIES, BORN, STORED, SIZE, ORIGIN = range(7)
SINGLE = without("bulk", "forwarded")  # ops of many messages hold no contents


def _contents(run: Run, delivery: Delivery) -> list[Any] | None:
    message = Draft(run).messages(delivery)[delivery.slot]
    return list(message[CONTENTS]) if len(message) > CONTENTS and message[CONTENTS] else None


def _with_contents(draft: Planting, like: Delivery, place: int, item: Any) -> None:
    contents = _contents(draft.run, like)
    assert contents is not None
    contents[place] = item
    draft.set_field(like, CONTENTS, contents)


def _changed(draft: Planting, place: int, change: Callable[[Any], Any]) -> None:
    like = draft.pick_delivery(
        lambda d: (c := _contents(draft.run, d)) is not None and c[place] is not None
    )
    contents = _contents(draft.run, like)
    assert contents is not None
    _with_contents(draft, like, place, change(contents[place]))


@KINDS.mutation(
    "properties_changed",
    "the properties of a delivered message are not those that were sent",
    workloads=SINGLE,
)
def properties_changed(draft: Planting) -> None:
    _changed(draft, PROPERTIES, lambda digest: digest ^ 0x5A5A5A5A)


@KINDS.mutation(
    "tag_changed", "a message is delivered with another tag than it was sent with", workloads=SINGLE
)
def tag_changed(draft: Planting) -> None:
    _changed(draft, TAG, lambda tag: "blue" if tag == "red" else "red")


@KINDS.mutation(
    "id_changed",
    "a message is delivered with another id than its sender received",
    workloads=SINGLE,
)
def id_changed(draft: Planting) -> None:
    _changed(draft, ID, lambda digest: digest ^ 2)


@KINDS.mutation(
    "shared_id",
    "the answer to a send has the unique message id of another message, and its deliveries have it, too",
    workloads=SINGLE,
)
def two_messages_with_one_id(draft: Planting) -> None:
    run = draft.run

    def is_identified(sent: Sent) -> bool:
        return sent.at is not None and "id" in run.ops[sent.at].value

    first = draft.pick_sent(is_identified)
    second = draft.pick_sent(lambda sent: is_identified(sent) and sent.key != first.key)
    assert first.at is not None
    assert second.at is not None
    shared = run.ops[first.at].value["id"]
    draft.alter(second.at, id=shared)
    for like in run.by_key.get(second.key, ()):
        contents = _contents(run, like)
        if contents is not None and contents[ID] is not None:
            draft.set_field(like, CONTENTS, [shared, *contents[1:]])


@KINDS.mutation(
    "size_changed",
    "a message is delivered with another size than it was sent with",
    workloads=SINGLE,
)
def size_changed(draft: Planting) -> None:
    _changed(draft, SIZE, lambda size: size + draft.rng.choice((-1, 1, 4096)))


@KINDS.mutation(
    "wrong_store_time",
    "a message says that it was stored an hour before it was born",
    workloads=SINGLE,
)
def stored_before_born(draft: Planting) -> None:
    _changed(draft, STORED, lambda stored: stored - 3_600_000)


@KINDS.mutation(
    "properties_changed",
    "two groups are given one message with different properties",
    workloads=without("bulk", "forwarded", "request-reply", "broadcast"),
)
def properties_differ_between_groups(draft: Planting) -> None:
    wide = draft.widen()
    last = list(wide.facts.groups)[-1]
    like = draft.pick_delivery(
        lambda d: d.group == last and len(wide.by_key[d.key]) > 1 and _contents(wide, d) is not None
    )
    _with_contents(draft, like, PROPERTIES, 12_345)


@KINDS.mutation(
    "store_time_changed",
    "two groups are given one record with two store times",
    workloads=without("bulk", "forwarded", "request-reply", "broadcast"),
)
def store_times_differ_between_groups(draft: Planting) -> None:
    wide = draft.widen()
    last = list(wide.facts.groups)[-1]
    like = draft.pick_delivery(
        lambda d: (
            d.group == last
            and len(wide.by_key[d.key]) > 1
            and (c := _contents(wide, d)) is not None
            and c[STORED] is not None
        )
    )
    contents = _contents(wide, like)
    if contents is None:
        raise NoSuchSite
    _with_contents(draft, like, STORED, contents[STORED] + 1)


def _copy(draft: Planting, prefix: str) -> Delivery:
    """A delivery of a copy that brokers made."""
    run = draft.run
    return draft.choose(
        run.deliveries,
        lambda d: (
            d.topic.startswith(prefix)
            and draft.is_here(d.time_ns)
            and d.key in run.sends
            and _contents(run, d) is not None
        ),
    )


@KINDS.mutation(
    "properties_changed", "a retry has lost the properties of its original", workloads=("retry",)
)
def retry_lost_properties(draft: Planting) -> None:
    like = _copy(draft, "%RETRY%")
    _with_contents(draft, like, PROPERTIES, 98_765)


@KINDS.mutation("tag_changed", "a retry has another tag than its original", workloads=("retry",))
def retry_changed_tag(draft: Planting) -> None:
    like = _copy(draft, "%RETRY%")
    _with_contents(draft, like, TAG, "violet")


@KINDS.mutation(
    "id_changed", "a retry has another message id than its original", workloads=("retry",)
)
def retry_changed_id(draft: Planting) -> None:
    like = _copy(draft, "%RETRY%")
    _with_contents(draft, like, ID, 3_141_592)


@KINDS.mutation(
    "origin_changed", "a retry says that it is a copy of what lies elsewhere", workloads=("retry",)
)
def retry_of_other_origin(draft: Planting) -> None:
    like = _copy(draft, "%RETRY%")
    contents = _contents(draft.run, like)
    if contents is None or contents[ORIGIN] is None:
        raise NoSuchSite
    _with_contents(draft, like, ORIGIN, contents[ORIGIN] + 77)


@KINDS.mutation(
    "properties_changed",
    "a dead letter has lost the properties of its original",
    workloads=("retry",),
)
def dead_letter_lost_properties(draft: Planting) -> None:
    run = draft.run
    dead = [d for d in run.deliveries if d.topic.startswith("%DLQ%") and d.key in run.sends]
    like = draft.choose(dead, lambda d: draft.is_of_site() and _contents(run, d) is not None)
    _with_contents(draft, like, PROPERTIES, 55_555)


@KINDS.mutation("born_time_changed", "a retry was born when it was stored", workloads=("retry",))
def retry_born_anew(draft: Planting) -> None:
    like = _copy(draft, "%RETRY%")
    contents = _contents(draft.run, like)
    if contents is None or contents[STORED] in (None, contents[BORN]):
        raise NoSuchSite
    _with_contents(draft, like, BORN, contents[STORED])


def _skewed(run: Run) -> set[str]:
    """Nodes whose wall clock was set wrong."""
    return {node for f in run.facts.faults if f.kind.startswith("clock") for node in f.targets}


def _at_wrong_time(draft: Planting, place: int, after: str, by_ms: int) -> None:
    """All deliveries of one message say that it was born or stored so long before its send or after it was given."""
    run = draft.run
    epoch_ms, skewed = run.facts.wall_epoch_ms, _skewed(run)
    like = draft.pick_delivery(
        lambda d: (
            (c := _contents(run, d)) is not None
            and c[place] is not None
            and skewed.isdisjoint(run.nodes_of_broker(d.broker))
            and run.ops[run.sends[d.key].begin].node not in skewed
        )
    )
    if epoch_ms is None:
        raise NoSuchSite
    reported = [d for d in run.by_key[like.key] if d.topic == like.topic]
    at_ns = {
        "send": run.sends[like.key].begin_ns,
        "delivery": max(d.begin_ns for d in reported),
    }[after]
    for delivery in reported:
        contents = _contents(run, delivery)
        if contents is not None:
            contents[place] = epoch_ms + at_ns // MS + by_ms
            draft.set_field(delivery, CONTENTS, contents)


@KINDS.mutation(
    "wrong_born_time", "a message was born half a second before it was sent", workloads=SINGLE
)
def born_before_send(draft: Planting) -> None:
    _at_wrong_time(draft, BORN, "send", -500)


@KINDS.mutation("wrong_born_time", "a message was born after it was delivered", workloads=SINGLE)
def born_after_delivery(draft: Planting) -> None:
    _at_wrong_time(draft, BORN, "delivery", 500)


@KINDS.mutation(
    "wrong_store_time", "a message was stored half a second before it was sent", workloads=SINGLE
)
def stored_before_send(draft: Planting) -> None:
    _at_wrong_time(draft, STORED, "send", -500)


@KINDS.mutation("wrong_store_time", "a message was stored after it was delivered", workloads=SINGLE)
def stored_after_delivery(draft: Planting) -> None:
    _at_wrong_time(draft, STORED, "delivery", 500)


@KINDS.mutation(
    "nonmonotonic_store_time",
    "a message was stored a millisecond before the one below it in its queue",
    workloads=SINGLE,
)
def stored_before_its_neighbour(draft: Planting) -> None:
    run = draft.run
    skewed = _skewed(run)
    stored = {(d.place, d.offset): c[STORED] for d in run.deliveries if (c := _contents(run, d))}

    def below(d: Delivery) -> int | None:
        return stored.get((d.place, d.offset - 1))

    like = draft.pick_delivery(
        lambda d: (
            _contents(run, d) is not None
            and below(d) is not None
            and skewed.isdisjoint(run.nodes_of_broker(d.broker))
        )
    )
    for delivery in run.by_key[like.key]:
        contents = _contents(run, delivery)
        if contents is not None and (delivery.place, delivery.offset) == (like.place, like.offset):
            contents[STORED] = (below(like) or 0) - 1
            draft.set_field(delivery, CONTENTS, contents)


@KINDS.mutation(
    "origin_changed", "a message that was never sent back names an original", workloads=SINGLE
)
def first_delivery_names_an_origin(draft: Planting) -> None:
    like = draft.pick_delivery(lambda d: d.tries == 0 and _contents(draft.run, d) is not None)
    _with_contents(draft, like, ORIGIN, max(like.physical - 700, 0))


@KINDS.mutation(
    "wrong_store_time", "a dead letter was stored before its last retry", workloads=("retry",)
)
def dead_letter_stored_before_its_retry(draft: Planting) -> None:
    run = draft.run

    def made_of(dead: Delivery) -> list[Delivery]:
        return [d for d in run.by_key[dead.key] if d.tries == dead.tries - 1]

    like = draft.choose(
        [d for d in run.deliveries if d.topic.startswith("%DLQ%") and d.key in run.sends],
        lambda d: draft.is_of_site() and _contents(run, d) is not None and len(made_of(d)) == 1,
    )
    epoch_ms = run.facts.wall_epoch_ms
    if epoch_ms is None:
        raise NoSuchSite
    stored_ns = made_of(like)[0].begin_ns - S
    _with_contents(draft, like, STORED, epoch_ms + stored_ns // 1_000_000)
