"""One line an op: `0 ok send a` is process 0, type, f, and what it concerns.

    0 ok send a             a is acknowledged; it gets the next offset of queue 0 of broker b, topic t
    0 ok send a@1:5         ... at queue 1, offset 5
    0 info send a           without an answer; with error=FLUSH_DISK_TIMEOUT it is stored, weakly acknowledged
    1 ok consume a b        group g gets both from where they were stored (or from the next offset)
    1 ok consume a@0:7      ... from queue 0, offset 7
    1 ok consume a! ? b~1   a with a wrong body, a body without a key, b for the second time
    1 ok assign 0 1         process 1 now owns queues 0 and 1
    1 ok commit 0:5         group g wants offset 5 of queue 0 next
    1 ok commit_to 0        ... commits that follow go to the master of broker b; with arrived=1 earlier ones are there
    9 ok drain              group g has read every queue seen so far to its end
    9 info drain 0:8:5      ... queue 0 ends at 8, committed is 5
    9 ok probe b            a send to broker b after heal
    1 ok open node=c1       the client process of node c1 is ready; with group=g it is a member

Options come last: `node=c1 group=h topic=u broker=c queue=1 attempts=2 error=X status=X key=k physical=900
min=3` (start of a drained queue), `delay_ms=5000` (of a send), and `t=2.5` sets the clock to 2.5 s (else each op
takes a millisecond).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts, QueuesConfirmed, RunFacts
from staticfire.checkers.model.history import Op

GROUP, TOPIC, BROKER, NODE = "g", "t", "b", "n0"
Queue = tuple[str, str, int]
RECORD_SIZE = 100
WEAK = ("FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")


def history(*lines: str) -> list[Op]:
    """Parse a history. Raises ValueError on a word that is not in the language."""
    writer = _Writer()
    for line in lines:
        writer.write(line)
    return writer.ops


def facts(**changes: Any) -> RunFacts:
    """One broker b on node n0, sync flush, group g on topic t, and no faults; `changes` override."""
    plain: dict[str, Any] = {
        "flush": "sync",
        "replication": "none",
        "groups": {GROUP: (TOPIC,)},
        "topics": (TOPIC,),
        "replica_sets": {BROKER: (NODE,)},
    }
    return RunFacts(**{**plain, **changes})


def fault(
    kind: str, *targets: str, at_s: float, healed_s: float | None, bitten: bool = True
) -> FaultFacts:
    """A fault that fired at one time and, if `bitten`, was proven at once."""
    fired_ns = _ns(at_s)
    return FaultFacts(
        fault_id=f"{kind}-{at_s}",
        kind=kind,
        targets=targets,
        fired_ns=fired_ns,
        bitten_ns=fired_ns if bitten else None,
        healed_ns=None if healed_s is None else _ns(healed_s),
    )


def queues_confirmed(queues: int, *, at_s: float, stream: str = BROKER) -> FaultFacts:
    """An operator asked for more queues of topic t, and the leader confirmed them at this time."""
    one = QueuesConfirmed(topic=TOPIC, stream=stream, queues=queues, answered_ns=_ns(at_s))
    return replace(fault("topic_change", at_s=at_s, healed_s=at_s + 1), confirmed=(one,))


def _ns(time_s: float) -> int:
    return round(time_s * 1_000_000_000)


class _Writer:
    """Turns lines into ops, and remembers which message lies where."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._now_ns = 0
        self._places: dict[str, tuple[Queue, int]] = {}
        self._ends: dict[Queue, int] = {}

    def write(self, line: str) -> None:
        process, kind, f, *rest = line.split()
        words = [word for word in rest if "=" not in word]
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        self._now_ns += 1_000_000
        if "t" in options:
            self._now_ns = _ns(float(options.pop("t")))
        value = getattr(self, f"_{f}")(kind, words, options)
        op = Op(
            index=len(self.ops),
            time_ns=self._now_ns,
            process=int(process),
            type=kind,  # type: ignore[arg-type]  # a wrong one fails in the checker under test
            f=f,
            value=value,
            error=options.get("error"),
            node=options.get("node"),
        )
        self.ops.append(op)

    def _send(self, kind: str, words: list[str], options: Mapping[str, str]) -> dict[str, Any]:
        [word] = words
        key, _, _ = word.partition("@")
        value = {"key": key, "topic": options.get("topic", TOPIC), "size": RECORD_SIZE}
        if "@" in word or kind == "ok" or options.get("error") in WEAK:
            (_, broker, number), offset = self._place(word, options)
            value |= {"broker": broker, "queue": number, "queue_offset": offset}
            physical = int(options.get("physical", offset * RECORD_SIZE))
            value |= {"physical_offset": physical, "status": options.get("status", "SEND_OK")}
            value["attempts"] = int(options.get("attempts", 1))
        elif "attempts" in options:
            value["attempts"] = int(options["attempts"])
        if "delay_ms" in options:
            value["delay_ms"] = int(options["delay_ms"])
        return value

    def _consume(self, _kind: str, words: list[str], options: Mapping[str, str]) -> dict[str, Any]:
        messages = [self._delivered(word, options) for word in words]
        queue = messages[0][0]
        assert all(message[0] == queue for message in messages), "one queue a consume"
        return {
            "group": options.get("group", GROUP),
            "topic": queue[0],
            "broker": queue[1],
            "queue": queue[2],
            "messages": [event for _, event in messages],
        }

    def _delivered(self, word: str, options: Mapping[str, str]) -> tuple[Queue, list[Any]]:
        name, _, times = word.partition("~")
        body_ok = "!" not in name and not name.startswith("?")
        name = name.replace("!", "")
        queue, offset = self._place(name, options)
        key = name.partition("@")[0]
        event = [
            None if key == "?" else key,
            offset,
            offset * RECORD_SIZE,
            body_ok,
            int(times or 0),
        ]
        return queue, event

    def _assign(self, _kind: str, words: list[str], options: Mapping[str, str]) -> dict[str, Any]:
        _, broker, _ = self._queue(options)
        return self._to_group(options, "queues", [[broker, int(word)] for word in words])

    def _commit(self, _kind: str, words: list[str], options: Mapping[str, str]) -> dict[str, Any]:
        _, broker, _ = self._queue(options)
        pairs = (map(int, word.split(":")) for word in words)
        return self._to_group(options, "offsets", [[broker, *pair] for pair in pairs])

    def _commit_to(
        self, _kind: str, words: list[str], options: Mapping[str, str]
    ) -> dict[str, Any]:
        _, broker, _ = self._queue(options)
        [broker_id] = words
        row = [broker, int(broker_id), "arrived" in options]
        return {"group": options.get("group", GROUP), "brokers": [row]}

    def _begin(self, _kind: str, words: list[str], options: Mapping[str, str]) -> dict[str, Any]:
        topic, broker, _ = self._queue(options)
        [(queue, _, offset)] = (word.partition(":") for word in words)
        reported = {"offset": int(offset) if offset else None}
        if "by" in options:
            reported["broker_id"] = int(options["by"])
        place = {"topic": topic, "broker": broker, "queue": int(queue)}
        return {"group": options.get("group", GROUP), **place, **reported}

    def _drain(self, kind: str, words: list[str], options: Mapping[str, str]) -> dict[str, Any]:
        topic, broker, _ = self._queue(options)
        ends = [
            (name, number, 0, end, end)
            for (of_topic, name, number), end in sorted(self._ends.items())
            if of_topic == topic
        ]
        if words:
            given = (map(int, word.split(":")) for word in words)
            low = int(options.get("min", 0))
            ends = [(broker, number, low, end, done) for number, end, done in given]
        lag = sum(end - done for _, _, _, end, done in ends) if kind == "info" else 0
        return {**self._to_group(options, "queues", list(map(list, ends))), "lag": lag}

    def _probe(self, _kind: str, words: list[str], options: Mapping[str, str]) -> dict[str, Any]:
        [broker] = words
        if "key" not in options:
            return {"broker": broker}
        sent = self._send("ok", [options["key"]], {**options, "broker": broker})
        return {**sent, "broker": broker}

    def _open(self, _kind: str, _words: list[str], options: Mapping[str, str]) -> dict[str, Any]:
        if "group" not in options:
            return {}
        topic = options.get("topic", TOPIC)
        return {"group": options["group"], "topic": topic, "expression": "*"}

    def _to_group(self, options: Mapping[str, str], name: str, rows: Any) -> dict[str, Any]:
        topic = options.get("topic", TOPIC)
        return {"group": options.get("group", GROUP), "topic": topic, name: rows}

    def _queue(self, options: Mapping[str, str]) -> Queue:
        topic, broker = options.get("topic", TOPIC), options.get("broker", BROKER)
        return topic, broker, int(options.get("queue", 0))

    def _place(self, word: str, options: Mapping[str, str]) -> tuple[Queue, int]:
        """Return where a message lies; `key@queue:offset` moves it there."""
        key, _, place = word.partition("@")
        queue = self._queue(options)
        if place:
            number, offset = map(int, place.split(":"))
            queue = (*queue[:2], number)
        elif key in self._places:
            return self._places[key]
        else:
            offset = self._ends.get(queue, 0)
        self._places.setdefault(key, (queue, offset))
        self._ends[queue] = max(self._ends.get(queue, 0), offset + 1)
        return queue, offset
