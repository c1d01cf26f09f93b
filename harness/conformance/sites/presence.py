"""Checks before the first case and after failures that the target is a RocketMQ and accepts our requests."""

from __future__ import annotations

import asyncio

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.failures import BadAnswer, TargetUnfit
from staticfire.harness.conformance.request_fields import send_fields, topic_fields
from staticfire.harness.conformance.sites.site import SiteFailed
from staticfire.harness.conformance.target_facts import BrokerAddress, TargetFacts
from staticfire.harness.conformance.wire import CannotConnect, NoAnswer, Wire
from staticfire.harness.conformance.wire_log import WireLog
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting.address import parse_address

GREETING_S = 3.0  # wait for the greeting of another product
NOT_ROCKETMQ = (NoAnswer, BadAnswer, TargetUnfit)
# First bytes of the answers of other servers to an HTTP request.
_PRODUCTS = (
    (b"HTTP/", "an HTTP server"),
    (b"-ERR", "a server of lines, such as Redis"),
    (b"-NOAUTH", "a Redis with a password"),
    (b"ERROR", "a server of lines, such as memcached or STOMP"),
    (b"SSH-", "an SSH server"),
    (b"220 ", "a mail or FTP server"),
    (b"AMQP", "an AMQP broker"),
    (b"\x15\x03", "a server that speaks TLS alone"),
)


async def find_brokers(target: TargetFacts) -> tuple[BrokerAddress, ...]:
    """Return the brokers of the last name server; every name server must know a master. Raises SiteFailed."""
    brokers: tuple[BrokerAddress, ...] = ()
    for number, address in enumerate(target.name_servers):
        bench = _bench(target)
        try:
            brokers = await bench.known_brokers(await bench.name_server(number))
        except CannotConnect as error:
            raise SiteFailed(str(error)) from None
        except NOT_ROCKETMQ as error:
            raise SiteFailed(await _notified(address, "name server", error)) from None
        finally:
            await bench.close()
        if not any(broker.id == 0 for broker in brokers):
            raise SiteFailed(f"{address} knows no master broker")
    return brokers


async def require_admitted(target: TargetFacts) -> None:
    """Raise SiteFailed if the master that cases use is out of reach, or denies requests of cases."""
    bench = _bench(target)
    try:
        master = await bench.master()
        try:
            broker = await bench.connect(master.address)
            if answer := await _denial(bench, broker, master.address):
                raise SiteFailed(
                    f"{master.name} at {master.address} denies permission: {answer.code} {answer.remark!r:.200}"
                )
        except CannotConnect as error:
            raise SiteFailed(
                f"{master.name} is out of reach under the address that name servers give: {error}"
            ) from None
        except NOT_ROCKETMQ as error:
            raise SiteFailed(await _notified(master.address, "broker", error)) from None
    finally:
        await bench.close()


async def why_gone(target: TargetFacts) -> str:
    """Return why no more cases can run; empty if the name server and the master that cases use answer."""
    bench = _bench(target)
    try:
        broker = await bench.broker()
        await broker.ask(RequestCode.GET_BROKER_RUNTIME_INFO)  # any answer will do
    except (CannotConnect, *NOT_ROCKETMQ) as error:
        return str(error)
    finally:
        await bench.close()
    return ""


async def product_at(address: str) -> str:
    """Return the product that answers at an address instead of RocketMQ; empty if it does not name itself."""
    host, port = parse_address(address)
    try:
        async with asyncio.timeout(GREETING_S):
            reader, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return ""
    try:
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        async with asyncio.timeout(GREETING_S):
            said = await reader.read(80)
    except (OSError, TimeoutError):
        return ""
    finally:
        writer.close()
    for begin, product in _PRODUCTS:
        if said.startswith(begin):
            return product
    return ""


def _bench(target: TargetFacts) -> Bench:
    return Bench(target, WireLog(asyncio.get_running_loop().time), "look")


async def _notified(address: str, role: str, error: Exception) -> str:
    product = await product_at(address)
    seems = f"; it seems to be {product}" if product else ""
    return f"{address} does not answer like a RocketMQ {role}: {error}{seems}"


async def _denial(bench: Bench, broker: Wire, address: str) -> RemotingCommand | None:
    """Return the answer by which a broker denies permission for a topic or a message; None if it does not."""
    name = bench.fresh_name()
    answers = []
    if bench.target.may_administrate:
        bench.remove_later(name, address)
        fields = topic_fields(name, queues=1)
        answers.append(await broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields))
    answers.append(await broker.ask(RequestCode.SEND_MESSAGE, send_fields(name, queue=0), b"?"))
    return next((answer for answer in answers if _is_denial(answer)), None)


def _is_denial(answer: RemotingCommand) -> bool:
    """Whether an answer denies permission: 5.x has a code, 4.9 a general code and a remark."""
    return answer.code == ResponseCode.NO_PERMISSION or "AclException" in (answer.remark or "")
