"""Contents of deliveries held against sends and against each other, in plain Python over ops.

Slow and obvious, without code of the kernel. A delivered message may end with its contents: message id, tag, digest of
properties, born time, store time, size, origin; None is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from staticfire.checkers.model.history import Op
from tests.support.reference_checkers import Delivery, Send, deliveries_of, sends_of

Found = Counter[tuple[str, str, str]]  # anomaly, key, group
NO_TAG, NO_PROPERTIES = "", 0


class Given(NamedTuple):
    """A delivery and what it held."""

    delivery: Delivery
    physical: int
    id: int | None
    tag: str | None
    properties: int | None
    born: int | None
    stored: int | None
    size: int | None
    origin: int | None

    @property
    def is_copy(self) -> bool:
        return self.delivery.queue[0].startswith(("%RETRY%", "%DLQ%"))


def contents(ops: Sequence[Op], digest: Callable[[dict[str, str]], int]) -> Found:
    """`digest` is that of properties, which docs/history.md defines."""
    found: Found = Counter()
    sends = {send.key: send for send in sends_of(ops)}
    given = sorted(_given(ops), key=lambda one: one.delivery.ended)
    for one in given:
        key = one.delivery.key
        if key is None:
            continue
        same = [other for other in given if other.delivery.key == key]
        for anomaly in _wrong(ops, sends.get(key), one, same, digest):
            found[anomaly, key, one.delivery.group] += 1
    return found


def shared_ids(ops: Sequence[Op]) -> set[str]:
    """The keys of sends whose id another message had before."""
    found, owners = set(), dict[int, str]()
    for send in sorted(sends_of(ops), key=lambda send: send.ended):
        number = ops[send.ended].value.get("id")
        if number is not None and owners.get(number, send.key) != send.key:
            found.add(send.key)
        if number is not None:
            owners[number] = send.key
    return found


def _given(ops: Sequence[Op]) -> Iterator[Given]:
    taken: Counter[int] = Counter()
    for delivery in deliveries_of(ops):
        called, ended = ops[delivery.began].value["messages"], ops[delivery.ended].value["messages"]
        place = taken[delivery.ended]
        taken[delivery.ended] += 1
        known = ended[place][5:] if any(len(row) > 5 for row in ended) else called[place][5:]
        yield Given(delivery, ended[place][2], *(known[0] if known else [None] * 7))


def _wrong(
    ops: Sequence[Op],
    send: Send | None,
    one: Given,
    same: Sequence[Given],
    digest: Callable[[dict[str, str]], int],
) -> Iterator[str]:
    asked = {} if send is None else ops[send.ended].value
    if send is not None:
        if one.tag not in (None, asked.get("tag") or NO_TAG):
            yield "tag_changed"
        if one.properties not in (None, digest(asked.get("properties", {}))):
            yield "properties_changed"
        least = len(f"{send.key} ".encode())
        if "size" in asked and one.size not in (None, asked["size"], max(asked["size"], least)):
            yield "size_changed"
    ids = [asked["id"]] if "id" in asked else [of.id for of in same if of.id is not None]
    if one.id is not None and one.id != ids[0]:
        yield "id_changed"
    if send is not None and send.attempts == 1 and _other_born_time(ops, one, same):
        yield "born_time_changed"
    stored = [of.stored for of in same if _place(of) == _place(one) and of.stored is not None]
    if one.stored is not None and one.stored != stored[0]:
        yield "store_time_changed"
    machines = [of.physical for of in same if not of.is_copy]
    names_none = one.id is not None and one.origin not in (one.id, *machines)
    if names_none if one.is_copy else one.origin is not None:
        yield "origin_changed"


def _place(one: Given) -> Any:
    return one.delivery.queue, one.delivery.offset, one.physical


def _other_born_time(ops: Sequence[Op], one: Given, same: Sequence[Given]) -> bool:
    born = [of.born for of in same if not of.is_copy and of.born is not None]
    if one.born is None or not born or one.born == born[0]:
        return False
    return not one.is_copy or all(
        _by_broker(ops, one, same, tries) for tries in range(one.delivery.tries)
    )


def _by_broker(ops: Sequence[Op], one: Given, same: Sequence[Given], tries: int) -> bool:
    """Whether every failure of one step was reported as sent back by the broker."""
    reports = [
        op.value.get("copied")
        for op in ops
        if op.f == "send_back" and op.type != "invoke" and op.value["group"] == one.delivery.group
        for key, _, of in op.value["messages"]
        if (key, of) == (one.delivery.key, tries)
    ]
    failures = [
        of
        for of in same
        if of.delivery.group == one.delivery.group
        and of.delivery.tries == tries
        and not of.delivery.consumed
    ]
    return bool(reports) and set(reports) == {False} and len(reports) >= len(failures)


def times(
    ops: Sequence[Op],
    epoch_ms: int,
    brokers: Mapping[str, Sequence[str]],
    skewed: Mapping[str, int],
) -> Found:
    """Born and store times that cannot be; `skewed`: from when the clock of a node may be wrong, in ns."""
    found: Found = Counter()
    sends = {send.key: send for send in sends_of(ops)}
    nodes = {op.process: op.node for op in ops if op.f == "open"}
    for one in _given(ops):
        send, given = sends.get(one.delivery.key or ""), ops[one.delivery.began]
        if send is None:
            continue
        began_ms, ended_ms, given_ms = (
            epoch_ms + at.time_ns / 1e6 for at in (ops[send.began], ops[send.ended], given)
        )
        what = send.key, one.delivery.group
        until_ms = ended_ms if send.outcome == "ok" else given_ms
        is_clear = given.time_ns < skewed.get(nodes.get(send.process) or "", 1 << 62)
        if one.born is not None and not one.is_copy and is_clear:
            found["wrong_born_time", *what] += not began_ms - 100 <= one.born <= until_ms + 100
        value = ops[send.ended].value
        at_once = "delay_ms" not in value and "transaction" not in value and send.attempts == 1
        there = (send.queue, send.offset) == (one.delivery.queue, one.delivery.offset)
        until_ms = ended_ms if send.outcome == "ok" and at_once and there else given_ms
        until_ms = min(until_ms, _taken_back_ms(ops, one, epoch_ms))
        clocks = [skewed.get(node, 1 << 62) for node in brokers[one.delivery.queue[1]]]
        due_ms = began_ms + value.get("delay_ms", 0)
        since_ms = max(due_ms, _sent_back_ms(ops, one, epoch_ms))
        if one.stored is not None and given.time_ns < min(clocks):
            found["wrong_store_time", *what] += not since_ms - 100 <= one.stored <= until_ms + 100
    return +found


def _taken_back_ms(ops: Sequence[Op], one: Given, epoch_ms: int) -> float:
    """When brokers had said of all that a dead letter can have been made of that they have it; else a time far off."""
    step = one.delivery.key, one.delivery.group, one.delivery.tries - 1
    made_of = sum((of.key, of.group, of.tries) == step for of in deliveries_of(ops))
    home = one.delivery.queue[1]
    answered = [
        (
            op.type == "ok"
            and (
                not op.value["copied"]
                or (op.value["broker"] != home and op.value.get("attempts") == 1)
            ),
            epoch_ms + op.time_ns / 1e6,
        )
        for op in ops
        if op.f == "send_back" and one.delivery.queue[0].startswith("%DLQ%")
        for key, _, tries in op.value["messages"]
        if (key, op.value["group"], tries) == step
    ]
    is_known = answered and len(answered) == made_of and all(known for known, _ in answered)
    return max(at_ms for _, at_ms in answered) if is_known else 1e18


def _sent_back_ms(ops: Sequence[Op], one: Given, epoch_ms: int) -> float:
    """When the first delivery began of which a dead letter can have been made; 0 of all others."""
    made_of = (
        epoch_ms + ops[of.began].time_ns / 1e6
        for of in deliveries_of(ops)
        if one.delivery.queue[0].startswith("%DLQ%")
        if (of.key, of.group) == (one.delivery.key, one.delivery.group)
        if of.tries == one.delivery.tries - 1
    )
    return min(made_of, default=0)
