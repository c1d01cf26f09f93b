"""RMQ-LIM: what peers may make a name server or a broker keep."""

from __future__ import annotations

import asyncio
import struct

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.name_server import FakeBroker
from staticfire.harness.conformance.wire import Wire
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
    """Send as many bytes of a frame that is larger."""
    length = struct.pack(">i", size)  # without itself
    peer.send_bytes(length + bytes(size - len(length)))
