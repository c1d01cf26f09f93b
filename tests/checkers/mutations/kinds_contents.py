"""Wrongs of what a message consists of besides its body: id, tag, properties, size, times; copies and originals."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import BARE, Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import Run, Site, choose, without
from tests.checkers.mutations.pick import pick_delivery, two_groups

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
    if like is None:
        return None
    contents = _contents(run, like)
    assert contents is not None
    return _with_contents(run, like, place, change(contents[place]))


@KINDS.mutation(
    "contents",
    "the properties of a delivered message are not those that were sent",
    workloads=SINGLE,
)
def properties_changed(run: Run, rng: Random, site: Site) -> Run | None:
    return _changed(run, rng, site, PROPERTIES, lambda digest: digest ^ 0x5A5A5A5A)


@KINDS.mutation(
    "contents", "a message is delivered with another tag than it was sent with", workloads=SINGLE
)
def tag_changed(run: Run, rng: Random, site: Site) -> Run | None:
    return _changed(run, rng, site, TAG, lambda tag: "blue" if tag == "red" else "red")


@KINDS.mutation(
    "contents", "a message is delivered with another id than its sender was told", workloads=SINGLE
)
def id_changed(run: Run, rng: Random, site: Site) -> Run | None:
    return _changed(run, rng, site, ID, lambda digest: digest ^ 2)


@KINDS.mutation(
    "contents", "a message is delivered with another size than it was sent with", workloads=SINGLE
)
def size_changed(run: Run, rng: Random, site: Site) -> Run | None:
    return _changed(run, rng, site, SIZE, lambda size: size + rng.choice((-1, 1, 4096)))


@KINDS.mutation(
    "contents", "a message says that it was stored an hour before it was born", workloads=SINGLE
)
def stored_before_born(run: Run, rng: Random, site: Site) -> Run | None:
    return _changed(run, rng, site, STORED, lambda stored: stored - 3_600_000)


@KINDS.mutation(
    "contents",
    "two groups are given one message with different properties",
    workloads=without("bulk", "forwarded", "request-reply", "broadcast"),
)
def properties_differ_between_groups(run: Run, rng: Random, site: Site) -> Run | None:
    wide = two_groups(run)
    last = wide and list(wide.facts.groups)[-1]
    like = wide and pick_delivery(
        wide,
        rng,
        site,
        lambda d: (
            d.group == last and len(wide.by_key[d.key]) > 1 and _contents(wide, d) is not None
        ),
    )
    return _with_contents(wide, like, PROPERTIES, 12_345) if wide and like else None


def _copy(run: Run, rng: Random, site: Site, prefix: str) -> Delivery | None:
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


@KINDS.mutation("contents", "a retry has lost the properties of its original", workloads=("retry",))
def retry_lost_properties(run: Run, rng: Random, site: Site) -> Run | None:
    like = _copy(run, rng, site, "%RETRY%")
    return _with_contents(run, like, PROPERTIES, 98_765) if like else None


@KINDS.mutation("contents", "a retry has another tag than its original", workloads=("retry",))
def retry_changed_tag(run: Run, rng: Random, site: Site) -> Run | None:
    like = _copy(run, rng, site, "%RETRY%")
    return _with_contents(run, like, TAG, "violet") if like else None


@KINDS.mutation(
    "contents", "a retry has another message id than its original", workloads=("retry",)
)
def retry_changed_id(run: Run, rng: Random, site: Site) -> Run | None:
    like = _copy(run, rng, site, "%RETRY%")
    return _with_contents(run, like, ID, 3_141_592) if like else None


@KINDS.mutation(
    "contents", "a retry says that it is a copy of what lies elsewhere", workloads=("retry",)
)
def retry_of_other_origin(run: Run, rng: Random, site: Site) -> Run | None:
    like = _copy(run, rng, site, "%RETRY%")
    contents = _contents(run, like) if like else None
    if like is None or contents is None or contents[ORIGIN] is None:
        return None
    return _with_contents(run, like, ORIGIN, contents[ORIGIN] + 77)


@KINDS.mutation(
    "contents", "a dead letter has lost the properties of its original", workloads=("retry",)
)
def dead_letter_lost_properties(run: Run, rng: Random, site: Site) -> Run | None:
    dead = [d for d in run.deliveries if d.topic.startswith("%DLQ%") and d.key in run.sends]
    like = choose(
        rng,
        dead,
        lambda d: (site == "fault") == bool(run.facts.faults) and _contents(run, d) is not None,
    )
    return _with_contents(run, like, PROPERTIES, 55_555) if like else None


@KINDS.mutation("contents", "a retry was born when it was stored", workloads=("retry",))
def retry_born_anew(run: Run, rng: Random, site: Site) -> Run | None:
    like = _copy(run, rng, site, "%RETRY%")
    contents = _contents(run, like) if like else None
    if like is None or contents is None or contents[STORED] in (None, contents[BORN]):
        return None
    return _with_contents(run, like, BORN, contents[STORED])
