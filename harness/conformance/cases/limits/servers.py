"""RMQ-LIM: the data of peers that a name server or a broker must keep."""

from __future__ import annotations

import asyncio
import struct

from staticfire.harness.conformance.bench import STORED, Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.limits.requests import BODY_MAX
from staticfire.harness.conformance.cases.name_server import FakeBroker
from staticfire.harness.conformance.cases.send import batch_record
from staticfire.harness.conformance.request_fields import send_fields, short_fields
from staticfire.harness.conformance.wire import Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode

# Limits of our nodes (docs/limits.md).
PAIRS_CHARACTERS = 2 << 20
BROKERS = 1000
HELD_BYTES = 128 << 20
UNFINISHED_BYTES = 8 << 20
COUNTED_BYTES = 100_000  # connections that hold less than 64 KiB are not counted
ARRIVES_S = 0.5  # after which an unfinished frame has arrived
VALUE_CHARACTERS = 500_000  # headers have at most 1 MiB
AT_ONCE = 50
BATCHES_BYTES = 64 << 20
LONG_BATCH, SHORT_BATCH = 20_000, 1_200  # messages; brokers take several steps for both
FIRST_S = 0.0005  # the long batch arrives before the others, and they arrive before it is stored


@case("RMQ-LIM-14", limit_s=120, spoils=True)  # the tables are full
async def tables_of_name_servers(bench: Bench) -> None:
    await _full_of_pairs(bench)
    known = len(await bench.known_brokers(await bench.name_server()))
    fakes = [FakeBroker(bench, await bench.name_server()) for _ in range(BROKERS - known)]
    for start in range(0, len(fakes), AT_ONCE):
        answers = await asyncio.gather(
            *(one.register({}) for one in fakes[start : start + AT_ONCE])
        )
        codes = {answer.code for answer in answers}
        require_equal(f"the codes for {BROKERS} brokers", codes, {ResponseCode.SUCCESS})
    above = await FakeBroker(bench, await bench.name_server()).register({})
    require_equal("the code for one more broker", above.code, ResponseCode.SYSTEM_ERROR)
    again = await fakes[0].register({})
    require_equal("the code for a known broker", again.code, ResponseCode.SUCCESS)


async def _full_of_pairs(bench: Bench) -> None:
    """Require that a name server has room for PAIRS_CHARACTERS of pairs, and for no more."""
    name_server = await bench.name_server()
    namespace = bench.fresh_name("space")
    room = PAIRS_CHARACTERS - len(namespace)
    keys: list[str] = []
    while room:
        keys.append(f"{len(keys):03}")
        size = min(room - len(keys[-1]), VALUE_CHARACTERS)
        await name_server.obtain(RequestCode.PUT_KV_CONFIG, _pair(namespace, keys[-1], size))
        room -= len(keys[-1]) + size
    above = _pair(namespace, keys[0], VALUE_CHARACTERS + 1)
    refused = await name_server.ask(RequestCode.PUT_KV_CONFIG, above)
    require_equal("the code for one more character", refused.code, ResponseCode.SYSTEM_ERROR)
    found = await name_server.obtain(RequestCode.GET_KV_CONFIG, _pair(namespace, keys[0], 0))
    require_equal("the length of a value", len(found.ext_fields["value"]), VALUE_CHARACTERS)
    for key in keys:
        await name_server.obtain(RequestCode.DELETE_KV_CONFIG, _pair(namespace, key, 0))


def _pair(namespace: str, key: str, size: int) -> dict[str, str]:
    return {"namespace": namespace, "key": key, "value": "v" * size}


@case("RMQ-LIM-15", limit_s=60)
async def unfinished_frames(bench: Bench) -> None:
    address = (await bench.master()).address
    *peers, last = [await bench.connect(address) for _ in range(HELD_BYTES // UNFINISHED_BYTES + 1)]
    for peer in peers:
        _begin_frame(peer, UNFINISHED_BYTES)
        await asyncio.sleep(ARRIVES_S)
    for peer in peers:
        require(not await peer.is_closed(wait_s=0.0), f"{address} does not hold 128 MiB")
    _begin_frame(last, COUNTED_BYTES)
    require(await peers[0].is_closed(), f"{address} holds more than 128 MiB")
    for peer in (*peers[1:], last):
        require(not await peer.is_closed(wait_s=ARRIVES_S), "another connection was ended, too")
        peer.close()


def _begin_frame(peer: Wire, size: int) -> None:
    """Send the first `size` bytes of a larger frame."""
    length = struct.pack(">i", size)  # does not count itself
    peer.send_bytes(length + bytes(size - len(length)))


@case("RMQ-LIM-16", limit_s=120, spoils=True)  # tens of MiB that other cases would read past
async def batches_that_wait(bench: Bench) -> None:
    topic, code = await bench.topic(queues=1), RequestCode.SEND_BATCH_MESSAGE
    count = BATCHES_BYTES // BODY_MAX  # the last one exceeds the limit, with the size of requests
    peers = [await bench.broker() for _ in range(count)]
    bodies = [_batch(LONG_BATCH), *[_batch(SHORT_BATCH)] * (count - 1)]
    futures, ends = [], []
    for peer, body in zip(peers, bodies, strict=True):
        command = request(code, short_fields({**send_fields(topic, queue=0), "batch": True}), body)
        frame = command.encode()
        futures.append(peer.expect(command.opaque))
        peer.send_bytes(frame[:-1])
        ends.append(frame[-1:])
        await asyncio.sleep(ARRIVES_S)
    for peer, end in zip(peers, ends, strict=True):
        peer.send_bytes(end)
        if peer is peers[0]:
            await asyncio.sleep(FIRST_S)
    codes = [
        (await peer.answer(future, code, answer_s=60)).code
        for peer, future in zip(peers, futures, strict=True)
    ]
    refused = codes.count(ResponseCode.SYSTEM_BUSY)
    require_equal(f"how many of {count} batches of 4 MiB were refused", refused, 1)
    stored = [one for one in codes if one != ResponseCode.SYSTEM_BUSY]
    require(set(stored) <= set(STORED), f"the codes of the others are {stored}")
    wanted = LONG_BATCH + (count - 2) * SHORT_BATCH
    found = await bench.end_of(peers[0], topic, least=wanted)
    require_equal("the end of the queue", found, wanted)


def _batch(messages: int) -> bytes:
    """Return a batch of the largest size with this number of messages."""
    size, rest = divmod(BODY_MAX, messages)
    empty = len(batch_record(b"", {}))
    record = batch_record(bytes(size - empty), {})
    return record * (messages - 1) + batch_record(bytes(size + rest - empty), {})
