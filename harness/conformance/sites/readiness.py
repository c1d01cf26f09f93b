"""Checks that a target is up and complete, before the first case and after each case that broke a node."""

from __future__ import annotations

import asyncio

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.failures import BadAnswer, TargetUnfit
from staticfire.harness.conformance.inventory import inventory
from staticfire.harness.conformance.request_fields import send_fields, topic_fields
from staticfire.harness.conformance.sites.site import SiteFailed
from staticfire.harness.conformance.target_facts import TargetFacts
from staticfire.harness.conformance.wire import CannotConnect, NoAnswer
from staticfire.harness.conformance.wire_log import WireLog
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode

UP_S = 60.0
POLL_S = 0.5
FIRST_CHECK_S = 90.0  # a broker checks transactions a minute after its start
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
NOT_YET = (CannotConnect, NoAnswer, BadAnswer, TargetUnfit)


async def until_serving(target: TargetFacts, brokers: int) -> None:
    """Wait until every name server knows this many brokers and every master stores a message as configured.

    Raises SiteFailed with the part that was still missing.
    """
    missing = "nothing was asked yet"
    try:
        async with asyncio.timeout(UP_S):
            while missing:
                bench = Bench(target, WireLog(asyncio.get_running_loop().time), "ready")
                try:
                    missing = await _missing(bench, brokers)
                except NOT_YET as error:
                    missing = str(error)
                finally:
                    await bench.close()
                await asyncio.sleep(POLL_S if missing else 0)
    except TimeoutError:
        raise SiteFailed(f"the target did not serve within {UP_S:g} s: {missing}") from None


async def until_checked(target: TargetFacts) -> None:
    """Wait until the master that cases use has the topic of half messages, at most FIRST_CHECK_S.

    Java 4.9.8 makes the topic at its first check. Until then the removal of any topic also removes the queue of half
    messages, and the broker confuses the ends of earlier half messages with those of later ones (RMQ-TXN-13).
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + FIRST_CHECK_S
    while loop.time() < until_s:
        bench = Bench(target, WireLog(loop.time), "ready")
        try:
            if HALF_TOPIC in (await inventory(await bench.broker())).topics:
                return
        except NOT_YET:
            pass  # the loop asks again
        finally:
            await bench.close()
        await asyncio.sleep(POLL_S)


async def _missing(bench: Bench, brokers: int) -> str:
    """Return what the target lacks, as a sentence; empty if it is complete."""
    for number, address in enumerate(bench.target.name_servers):
        known = await bench.known_brokers(await bench.name_server(number))
        if len(known) < brokers:
            name = bench.target.nodes.get(address, address)
            return f"{name} knows {len(known)} brokers of {brokers}"
    for master in await bench.masters():
        broker = await bench.connect(master.address)
        name = f"{bench.target.prefix}-ready"
        made = await broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(name, queues=1))
        sent = await broker.ask(RequestCode.SEND_MESSAGE, send_fields(name, queue=0), b"ready?")
        if made.code != ResponseCode.SUCCESS or sent.code != ResponseCode.SUCCESS:
            return f"{master.name} answers a message with {sent.code} {sent.remark}"
    return ""
