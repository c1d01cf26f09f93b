"""Events of faults in an explanation: those that struck nodes, and those that concern the whole cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.explain.event import Event
from staticfire.harness.recording.stored_logs import StoredLogs, log_position

PARAMS_MAX = 3  # in text
VALUE_LENGTH_MAX = 40


def of_faults(
    faults: Sequence[Mapping[str, Any]],
    topic: str | None,
    last_ns: Mapping[str, int],
    begin_ns: int,
    end_ns: int,
    stored_logs: StoredLogs | None,
) -> Iterator[Event]:
    """Yield faults that bit these nodes or the whole cluster during the life of a message.

    A fault without targets is an operation on the whole cluster. If its evidence names a topic, it concerns only that
    topic, and begins when it was fired.

    Args:
        topic: topic of the message, or of the queue.
        last_ns: for each node, the time after which its faults do not concern the message.
    """
    for fault in faults:
        struck, healed = fault.get("struck_ns"), fault.get("healed_ns")
        if struck is None or not fault["bitten"] or (healed is not None and healed < begin_ns):
            continue
        if not fault["targets"]:
            of_topic = fault["evidence"].get("topic")
            if of_topic not in (None, topic):
                continue
            struck = struck if of_topic is None or fault["fired_ns"] is None else fault["fired_ns"]
            if struck > end_ns:
                continue
        elif not any(struck <= min(end_ns, last_ns.get(node, -1)) for node in fault["targets"]):
            continue
        targets = ", ".join(fault["targets"])
        yield from _of_stall(fault, targets, struck)
        if fault.get("incidents"):
            yield from _of_incidents(fault, stored_logs)
        else:
            text = f"{fault['kind']} strikes{_params_text(fault)}{_effect_text(fault)}"
            yield Event(time_ns=struck, where=targets, text=text)
        if healed is not None and healed <= end_ns:
            yield Event(time_ns=healed, where=targets, text=f"{fault['kind']} is over")


def _of_stall(fault: Mapping[str, Any], targets: str, struck_ns: int) -> Iterator[Event]:
    """Yield the moment from which disks were slow before a power cut; none where the environment cannot slow them."""
    params, fired_ns = fault.get("params"), fault.get("fired_ns")
    if fired_ns is None or not isinstance(params, Mapping):
        return
    factor, slow_s = params.get("slow_factor"), params.get("slow_s")
    if not isinstance(factor, int | float) or not isinstance(slow_s, int | float):
        return
    if struck_ns - fired_ns >= round(slow_s * NS_PER_S):
        text = f"disk writes get {factor:g} times slower, until {fault['kind']} strikes"
        yield Event(time_ns=fired_ns, where=targets, text=text)


def _params_text(fault: Mapping[str, Any]) -> str:
    """Return the parameters of a fault that are one short value each."""
    params = fault.get("params")
    if not isinstance(params, Mapping):
        return ""
    texts = [
        f"{name} {value}"
        for name, value in params.items()
        if isinstance(value, str | int | float) and len(str(value)) <= VALUE_LENGTH_MAX
    ]
    return f" ({', '.join(texts[:PARAMS_MAX])})" if texts else ""


def _effect_text(fault: Mapping[str, Any]) -> str:
    lost = fault["evidence"].get("lost_bytes")
    if lost:
        return f": {lost} bytes that were not on disk are gone"
    kind = FAULTS.get(fault["kind"])
    return f": {kind.summary}" if kind is not None and not fault["targets"] else ""


def _of_incidents(fault: Mapping[str, Any], stored_logs: StoredLogs | None) -> Iterator[Event]:
    """Yield the effects that the fault had on disks, with their times."""
    for incident in fault["incidents"]:
        dropped = incident["dropped"]
        logs = [one for one in dropped if log_position(stored_logs, one["path"]) is not None]
        more = len(dropped) - 1
        others = f" and {more} more range{'s' * (more > 1)}" if more > 0 else ""
        gone = ""
        for one in (logs or dropped)[:1]:
            gone = f": bytes {one['start']}-{one['end']} of {one['path']}{others} are gone"
        what = "" if incident["what"] == "power cut" else f", {incident['what']}"
        text = f"{fault['kind']} strikes{what}{gone}"
        yield Event(time_ns=incident["at_ns"], where=incident["node"], text=text)
