"""A client of the line protocol (client-protocol.md) with nothing but the standard library: a producer or a consumer.

staticfire run --environment processes --faults client-crash,member-leaves --client 'python docs/minimal_client.py'

It speaks RocketMQ's remoting by itself: JSON headers, one request at a time on a connection, no retries of sends.
"""

import contextlib
import itertools
import json
import os
import queue
import signal
import socket
import struct
import sys
import threading
import time
import zlib

CONFIG = json.loads(sys.stdin.buffer.readline())
OPAQUE, TURN, SOCKETS = itertools.count(), itertools.count(), {}
REQUESTS = queue.SimpleQueue()  # a signal handler may put into it


def say(**fields):  # a line at once: what the harness has not read did not happen
    print(json.dumps({"error": None, **fields}), flush=True)


def read(stream, size):
    data = stream.read(size)
    if len(data) < size:
        raise OSError("the connection was closed")
    return data


def ask(address, code, ext=None, body=b""):
    """One request to a node: (code, fields, body) of its answer. OSError: there is none."""
    try:
        if address not in SOCKETS:
            host, _, port = address.rpartition(":")
            SOCKETS[address] = socket.create_connection((host, int(port)), 3).makefile("rwb")
        stream, opaque = SOCKETS[address], next(OPAQUE)
        fields = {"code": code, "flag": 0, "language": "OTHER", "opaque": opaque, "version": 401}
        header = json.dumps(
            {**fields, "extFields": {k: str(v) for k, v in (ext or {}).items()}}
        ).encode()
        stream.write(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
        stream.flush()
        while True:  # brokers may ask something in between: that is not answered
            size, length = struct.unpack(">ii", read(stream, 8))
            length &= 0xFFFFFF
            answer, rest = json.loads(read(stream, length)), read(stream, size - 4 - length)
            if answer["flag"] & 1 and answer["opaque"] == opaque:
                return answer["code"], answer.get("extFields") or {}, rest
    except OSError:
        SOCKETS.pop(address, None)
        raise


def queues(topic, permission):
    """[(broker name, queue, address of the master)] of all queues with this permission (4 read, 2 write)."""
    for name_server in CONFIG["name_servers"]:
        try:
            code, _, body = ask(
                name_server, 105, {"topic": topic, "acceptStandardJsonOnly": "true"}
            )
        except OSError:
            continue
        if code == 0:
            route = json.loads(body)
            masters = {
                each["brokerName"]: each["brokerAddrs"].get("0") for each in route["brokerDatas"]
            }
            count = "readQueueNums" if permission == 4 else "writeQueueNums"
            return sorted(
                (each["brokerName"], number, masters[each["brokerName"]])
                for each in route["queueDatas"]
                if each["perm"] & permission and masters.get(each["brokerName"])
                for number in range(each[count])
            )
    return []


def send(request):
    """The type, value and error of a send. `fail` is said only where nothing can be stored."""
    cannot = [name for name in ("sharding_key", "padding", "account") if name in request]
    places = [] if cannot else queues(request["topic"], 2)
    if "broker" in request:
        places = [each for each in places if each[:2] == (request["broker"], request["queue"])]
    if not places:
        return "fail", {}, f"it cannot send with {cannot[0]}" if cannot else "there is no route"
    broker, number, address = places[next(TURN) % len(places)]
    properties = {
        "KEYS": request["key"],
        "TAGS": request.get("tag"),
        "DELAY": request.get("delay_level"),
    }
    properties |= request.get("properties", {})
    text = "".join(
        f"{name}\x01{value}\x02" for name, value in properties.items() if value is not None
    )
    ext = {"producerGroup": CONFIG["group"], "topic": request["topic"], "defaultTopic": "TBW102"}
    ext |= {
        "defaultTopicQueueNums": 4,
        "queueId": number,
        "sysFlag": 0,
        "flag": 0,
        "properties": text,
    }
    ext |= {
        "bornTimestamp": int(time.time() * 1000),
        "reconsumeTimes": 0,
        "unitMode": "false",
        "batch": "false",
    }
    try:
        code, fields, _ = ask(address, 10, ext, body_of(request["key"], request["size"]))
    except ConnectionRefusedError as error:
        return "fail", {}, str(error)
    except OSError as error:
        return "info", {}, str(error) or "no answer"
    if code in (0, 10, 11, 12):  # SEND_OK, or stored with less than was asked for
        value = {
            "broker": broker,
            "queue": number,
            "queue_offset": int(fields["queueOffset"]),
            "attempts": 1,
        }
        return ("ok" if code == 0 else "info"), value, None if code == 0 else f"status {code}"
    return ("fail" if code in (2, 13, 14, 16, 17) else "info"), {}, f"refused with {code}"


def body_of(key, size):
    return (f"{key} " * (size // (len(key) + 1) + 1)).encode()[:size]


def messages_in(data):
    """[key, queue offset, physical offset, whether the body is intact, how often it was tried] of a pull."""
    while data:
        total, _, _, _, _, offset, physical, flags = struct.unpack(">iiiiiqqi", data[:40])
        at = 48 + (20 if flags & 0x10 else 8) + 8 + (20 if flags & 0x20 else 8)  # hosts may be IPv6
        tried, _, length = struct.unpack(">iqi", data[at : at + 16])
        body = data[at + 16 : at + 16 + length]
        body = zlib.decompress(body) if flags & 1 else body
        key = body.split(b" ")[0].decode(errors="replace")
        yield [key, offset, physical, body == body_of(key, len(body)), tried]
        data = data[total:]


class Consumer:
    """A member of its group: polls the queues that are its share, one after the other."""

    def __init__(self):
        self.offsets, self.owned, self.looked_s, self.delay_s, self.delayed = {}, [], 0.0, 0.0, 0
        self.scope = {"group": CONFIG["group"], "topic": CONFIG["topic"]}

    def share_out(self):
        """Heartbeats to all masters, then AVG: the queues in order, in runs as equal as can be."""
        places = queues(CONFIG["topic"], 4)
        subscription = {
            "topic": CONFIG["topic"],
            "subString": "*",
            "tagsSet": [],
            "codeSet": [],
            "subVersion": 0,
        }
        data = {
            "groupName": CONFIG["group"],
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
        }
        data |= {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [subscription],
        }
        beat = {"clientID": CONFIG["client_id"], "producerDataSet": [], "consumerDataSet": [data]}
        members = []
        for address in dict.fromkeys(each[2] for each in places):
            try:
                ask(address, 34, body=json.dumps(beat).encode())
                code, _, body = ask(address, 38, {"consumerGroup": CONFIG["group"]})
            except OSError:
                continue
            members = members or (sorted(json.loads(body)["consumerIdList"]) if code == 0 else [])
        if CONFIG["client_id"] in members:
            index, (size, rest) = (
                members.index(CONFIG["client_id"]),
                divmod(len(places), len(members)),
            )
            first = index * size + min(index, rest)
            self.owned = places[first : first + size + (index < rest)]
            self.offsets = {each: self.offsets[each] for each in self.owned if each in self.offsets}

    def poll(self):
        """One pull of each queue; whether anything came."""
        if time.monotonic() > self.looked_s + 1.0:
            self.looked_s = time.monotonic()
            self.share_out()
        is_busy = False
        for place in self.owned:
            with contextlib.suppress(OSError):
                is_busy = self.pull(*place) or is_busy
        return is_busy

    def pull(self, broker, number, address):
        """Whether anything came. OSError: the broker does not answer."""
        where, place = {**self.ids(), "queueId": number}, (broker, number, address)
        if place not in self.offsets:
            code, fields, _ = ask(address, 14, where)
            if code not in (0, 22):  # 22: the group has no offset there
                return False
            self.offsets[place] = int(fields.get("offset", 0)) if code == 0 else 0
        ext = {
            "queueOffset": self.offsets[place],
            "maxMsgNums": 32,
            "sysFlag": 4,
            "commitOffset": 0,
        }
        ext |= {"suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0}
        code, fields, body = ask(address, 11, {**where, **ext, "expressionType": "TAG"})
        if code == 0:
            self.listen({"broker": broker, "queue": number, "messages": list(messages_in(body))})
        if code in (0, 20, 21):  # messages, or none for this subscription, or the offset is gone
            self.offsets[place] = int(fields["nextBeginOffset"])
            ask(address, 15, {**where, "commitOffset": self.offsets[place]})
        return code == 0

    def listen(self, given):
        value = {**self.scope, **given}
        say(emit="consume", type="invoke", value=value)
        self.delayed += self.delay_s > 0
        time.sleep(self.delay_s)
        say(emit="consume", type="ok", value=value)

    def ids(self):
        return {"consumerGroup": CONFIG["group"], "topic": CONFIG["topic"]}

    def leave(self):
        for address in {each[2] for each in self.owned}:
            with contextlib.suppress(OSError):
                ask(
                    address, 35, {"clientID": CONFIG["client_id"], "consumerGroup": CONFIG["group"]}
                )


def answer(request, consumer):
    if consumer is None and request["f"] == "send":
        return send(request)
    if consumer is None and request["f"] == "open":
        return "ok", {}, None
    if consumer is not None and request["f"] == "slow_listener":
        consumer.delay_s = request["delay_s"]
        return "ok", {}, None
    if consumer is not None and request["f"] == "listener_counters":
        return "ok", {"delayed": consumer.delayed, "failed": 0}, None
    return "fail", {}, f"it cannot do {request['f']}"


def listen_to_harness():
    for line in sys.stdin.buffer:
        REQUESTS.put(json.loads(line))
    REQUESTS.put(None)


def main():
    consumer = Consumer() if sys.argv[1] == "consumer" else None
    signal.signal(signal.SIGTERM, lambda *_: REQUESTS.put(None))
    threading.Thread(target=listen_to_harness, daemon=True).start()
    say(emit="open", type="ok", value={})
    busy = False
    while True:
        try:
            request = REQUESTS.get(timeout=(0 if busy else 0.05) if consumer else None)
            if request is None:
                break
            kind, value, error = answer(request, consumer)
            say(id=request["id"], type=kind, value=value, error=error)
        except queue.Empty:
            busy = consumer.poll()
    if consumer:
        consumer.leave()
    os._exit(0)  # Python would abort here: the other thread still reads standard input


main()
