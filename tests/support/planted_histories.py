"""Histories in which nearly everything goes well, and a few anomalies planted by name.

Small random histories of anything are full of suspects; these are not, so they try what a first pass clears.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from staticfire.checkers.model.history import Op

Step = dict[str, Any]  # f, ending, process, value
GROUPS = {"g": ("t",), "h": ("t", "u")}
QUEUES = (("t", "b", 0), ("t", "b", 1), ("t", "c", 0), ("u", "b", 0))
FIRST_OFFSETS = (0, 0, 10**12)


def good_history(random: Random, *, messages: int) -> list[Step]:
    """Sends to four queues; two groups that read in order, a few messages a call, and commit; and their drains."""
    steps: list[Step] = []
    first = {queue: random.choice(FIRST_OFFSETS) for queue in QUEUES}
    logs: dict[Any, list[list[Any]]] = {queue: [] for queue in QUEUES}
    read = {(group, queue): 0 for group in GROUPS for queue in QUEUES}
    for number in range(messages):
        queue = random.choice(QUEUES)
        offset = first[queue] + len(logs[queue])
        process = random.randrange(3)
        logs[queue].append([f"p{process}-{number}", offset, offset * 100 + 7, True, 0])
        steps.append(_send(process, queue, logs[queue][-1]))
        if random.random() < 0.4:
            _read(random, steps, logs, read)
    while any(read[pair] < len(logs[pair[1]]) for pair in _pairs()):
        _read(random, steps, logs, read)
    for group, topics in GROUPS.items():
        for topic in topics:
            ends = [
                [broker, number, first[t, broker, number], end, end]
                for (t, broker, number), log in logs.items()
                if t == topic
                for end in [first[t, broker, number] + len(log)]
            ]
            value = {"group": group, "topic": topic, "queues": ends, "lag": 0}
            steps.append({"f": "drain", "ending": "ok", "process": 9, "value": value})
    return steps


def _pairs() -> list[tuple[str, Any]]:
    return [(group, q) for group, topics in GROUPS.items() for q in QUEUES if q[0] in topics]


def _send(process: int, queue: tuple[str, str, int], event: list[Any]) -> Step:
    key, offset, physical, *_ = event
    topic, broker, number = queue
    value = {"key": key, "topic": topic, "broker": broker, "queue": number}
    value |= {"queue_offset": offset, "physical_offset": physical, "attempts": 1}
    return {"f": "send", "ending": "ok", "process": process, "value": value}


def _read(random: Random, steps: list[Step], logs: Any, read: dict[Any, int]) -> None:
    group, queue = random.choice(_pairs())
    topic, broker, number = queue
    done = read[group, queue]
    messages = [list(event) for event in logs[queue][done : done + random.randint(1, 4)]]
    if not messages:
        return
    read[group, queue] += len(messages)
    of_group = {"group": group, "topic": topic}
    value = {**of_group, "broker": broker, "queue": number, "messages": messages}
    process = 10 if group == "g" else 11
    steps.append({"f": "consume", "ending": "ok", "process": process, "value": value})
    if random.random() < 0.3:
        value = {**of_group, "offsets": [[broker, number, messages[-1][1] + 1]]}
        steps.append({"f": "commit", "ending": "ok", "process": process, "value": value})


def to_ops(random: Random, steps: list[Step]) -> list[Op]:
    """Ops in the order of steps; some are invoked a few ops earlier than they complete."""
    lines: list[tuple[str, Step]] = []
    for step in steps:
        if step["f"] in ("send", "consume") and random.random() < 0.5:
            back = random.randrange(3) if step["f"] == "send" else 0
            lines.insert(max(len(lines) - back, 0), ("invoke", step))
        if step["ending"] != "open":
            lines.append((step["ending"], step))
        elif ("invoke", step) not in lines[-4:]:
            lines.append(("invoke", step))
    return [
        Op(
            index=index,
            time_ns=index * 1_000_000,
            process=step["process"],
            type="info" if ending == "weak" else ending,  # type: ignore[arg-type]  # one of the four
            f=step["f"],
            value=step["value"],
            error="FLUSH_DISK_TIMEOUT" if ending == "weak" else None,
        )
        for index, (ending, step) in enumerate(lines)
    ]


def _some(random: Random, steps: list[Step], f: str) -> Step:
    """A step of that sort that is not without messages, if it can have some."""
    fit = [s for s in steps if s["f"] == f and len(s["value"].get("messages", [0])) > 0]
    return random.choice(fit)


def _sends(steps: list[Step]) -> list[Step]:
    return [step for step in steps if step["f"] == "send"]


def lost(random: Random, steps: list[Step]) -> None:
    """An acknowledged message that no member gets."""
    key = _some(random, steps, "send")["value"]["key"]
    for step in steps:
        if step["f"] == "consume":
            messages = step["value"]["messages"]
            step["value"]["messages"] = [event for event in messages if event[0] != key]
    steps[:] = [step for step in steps if step["value"].get("messages", True)]


def unseen(random: Random, steps: list[Step]) -> None:
    """A message of topic t that group g does not get."""
    mine = [s for s in steps if s["f"] == "consume" and s["value"]["group"] == "g"]
    step = random.choice(mine)
    step["value"]["messages"].pop(random.randrange(len(step["value"]["messages"])))
    if not step["value"]["messages"]:
        steps.remove(step)


def not_finished(random: Random, steps: list[Step]) -> None:
    """A listener that does not finish, without a retry."""
    _some(random, steps, "consume")["ending"] = "info"


def given_again(random: Random, steps: list[Step]) -> None:
    """A call of the listener that comes twice, somewhere later."""
    step = _some(random, steps, "consume")
    at = random.randrange(steps.index(step), len(steps)) + 1
    steps.insert(at, {**step, "value": {**step["value"]}})


def phantom(random: Random, steps: list[Step]) -> None:
    """A message without a send."""
    steps.remove(_some(random, steps, "send"))


def aborted(random: Random, steps: list[Step]) -> None:
    """A send that failed for certain, and is delivered."""
    step = _some(random, steps, "send")
    step["ending"] = "fail"
    for name in ("broker", "queue", "queue_offset", "physical_offset"):
        del step["value"][name]


def recovered(random: Random, steps: list[Step]) -> None:
    """A send without an answer whose message is delivered."""
    aborted(random, steps)
    failed = next(step for step in _sends(steps) if step["ending"] == "fail")
    failed["ending"] = random.choice(["info", "open"])


def weak(random: Random, steps: list[Step]) -> None:
    _some(random, steps, "send")["ending"] = "weak"


def corrupt(random: Random, steps: list[Step]) -> None:
    _event(random, steps)[3] = False


def unreadable(random: Random, steps: list[Step]) -> None:
    event = _event(random, steps)
    event[0], event[3] = None, False


def _event(random: Random, steps: list[Step]) -> list[Any]:
    messages: list[list[Any]] = _some(random, steps, "consume")["value"]["messages"]
    return random.choice(messages)


def misrouted(random: Random, steps: list[Step]) -> None:
    """A delivery that comes from another queue."""
    step = _some(random, steps, "consume")
    topic, broker, number = random.choice(QUEUES)
    step["value"] |= {"topic": topic, "broker": broker, "queue": number}


def copied(random: Random, steps: list[Step]) -> None:
    """A message that is stored a second time, further up or in another queue."""
    step = _some(random, steps, "consume")
    value = {**step["value"], "messages": [list(random.choice(step["value"]["messages"]))]}
    value["messages"][0][1] += random.choice([0, 1, 2, 1000, 10**15])
    topic, broker, number = random.choice(
        [(value["topic"], value["broker"], value["queue"]), *QUEUES]
    )
    value |= {"topic": topic, "broker": broker, "queue": number}
    steps.insert(random.randrange(len(steps)), {**step, "value": value})


def another_there(random: Random, steps: list[Step]) -> None:
    """A delivery that has another message at the place."""
    _event(random, steps)[0] = random.choice(_sends(steps))["value"]["key"]


def acked_elsewhere(random: Random, steps: list[Step]) -> None:
    """An acknowledgement that names the offset of another message, or one that no message has."""
    offset = random.choice([-1, 0, 1, 5, 10**12, 10**15])
    _some(random, steps, "send")["value"]["queue_offset"] = offset


def sent_late(random: Random, steps: list[Step]) -> None:
    """Two sends whose offsets are swapped."""
    one, other = random.choice(_sends(steps)), random.choice(_sends(steps))
    names = ("topic", "broker", "queue", "queue_offset", "physical_offset")
    for name in names:
        one["value"][name], other["value"][name] = other["value"][name], one["value"][name]


def given_late(random: Random, steps: list[Step]) -> None:
    """A call of the listener that comes later than the following ones."""
    step = _some(random, steps, "consume")
    at = steps.index(step)
    steps.remove(step)
    steps.insert(random.randrange(at, len(steps)), step)


def shuffled(random: Random, steps: list[Step]) -> None:
    """The messages of one call in any order."""
    random.shuffle(_some(random, steps, "consume")["value"]["messages"])


def committed_wrong(random: Random, steps: list[Step]) -> None:
    commits = [step for step in steps if step["f"] == "commit"]
    if commits:
        random.choice(commits)["value"]["offsets"][0][2] += random.choice([-2, -1, 1, 2, 10**6])


def not_drained(random: Random, steps: list[Step]) -> None:
    """A drain that did not come to the end of a queue, or is missing."""
    step = _some(random, steps, "drain")
    if random.random() < 0.3:
        steps.remove(step)
        return
    step["ending"] = "info"
    end = random.choice(step["value"]["queues"])
    end[4] = random.randint(end[2], end[3])


def cut_short(random: Random, steps: list[Step]) -> None:
    """A group that stops reading: pending, or unseen where the drain says that it went on."""
    group = random.choice("gh")
    at = random.randrange(len(steps))
    steps[at:] = [
        step for step in steps[at:] if step["f"] != "consume" or step["value"]["group"] != group
    ]


def deleted(random: Random, steps: list[Step]) -> None:
    """Retention: a queue that begins further up at the drain."""
    end = random.choice(_some(random, steps, "drain")["value"]["queues"])
    end[2] = random.randint(end[2], end[3])


def assigned(random: Random, steps: list[Step]) -> None:
    group = random.choice("gh")
    topic, broker, number = random.choice(QUEUES)
    value = {"group": group, "topic": topic, "queues": [[broker, number]] * random.randrange(2)}
    process = 10 if group == "g" else 11
    step = {"f": "assign", "ending": "ok", "process": process, "value": value}
    steps.insert(random.randrange(len(steps)), step)


def another_owner(random: Random, steps: list[Step]) -> None:
    _some(random, steps, "consume")["process"] = 12


def sent_after(random: Random, steps: list[Step]) -> None:
    """A send that comes after its message was delivered."""
    step = _some(random, steps, "send")
    steps.remove(step)
    steps.insert(random.randrange(len(steps)), step)


def retried(random: Random, steps: list[Step]) -> None:
    _some(random, steps, "send")["value"]["attempts"] = random.choice([0, 2, 3])


PLANTS: dict[str, Callable[[Random, list[Step]], None]] = {
    plant.__name__: plant
    for plant in (
        lost,
        unseen,
        not_finished,
        given_again,
        phantom,
        aborted,
        recovered,
        weak,
        corrupt,
        unreadable,
        misrouted,
        copied,
        another_there,
        acked_elsewhere,
        sent_late,
        given_late,
        shuffled,
        committed_wrong,
        not_drained,
        cut_short,
        deleted,
        assigned,
        another_owner,
        sent_after,
        retried,
    )
}


def planted_history(seed: int, plants: list[str]) -> list[Op]:
    """A good history with these plants, one after the other; one that finds nothing to plant in plants nothing."""
    random = Random(seed)
    steps = good_history(random, messages=30)
    for name in plants:
        try:
            PLANTS[name](random, steps)
        except (IndexError, KeyError):  # an earlier plant took away what this one needs
            continue
    return to_ops(random, steps)
