"""RMQ-ADM, of clients: the requests of an administrator."""

from __future__ import annotations

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.admin import found_by_key
from staticfire.harness.conformance.cases.client.reports import FIELD_END, RECORD_END
from staticfire.harness.conformance.client import Client
from staticfire.harness.conformance.client_proxy import refusal
from staticfire.harness.conformance.clients.stage import Stage
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

ACCOUNT = {"accessKey": "conformance", "secretKey": "not-a-secret", "defaultTopicPerm": "PUB"}


@case("RMQ-ADM-17")
async def administrators(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    unique = f"{bench.fresh_number():032X}"
    await bench.store(broker, topic, b"wanted", properties={"UNIQ_KEY": unique})
    await found_by_key(broker, topic, unique, is_unique=True)
    client = await Stage(bench).administrator()
    asked = _requests_of(client)
    await _names(bench, client)
    found = await _found(client, "by_unique_key", topic=topic, key=unique)
    require_equal("what a unique key finds", found, ["wanted"])
    is_unique = asked[RequestCode.QUERY_MESSAGE].get("_UNIQUE_KEY_QUERY")
    require_equal("_UNIQUE_KEY_QUERY of that request", is_unique, "true")
    await _traced(bench, client)
    address = client.proxy.view.addresses[broker.address]
    await _found(client, "put_account", address=address, account=ACCOUNT)
    account = asked.get(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG)
    require_equal("the account that the broker gets", account, ACCOUNT)
    await _found(client, "consume_stats", address=address)
    is_order = asked[RequestCode.GET_BROKER_CONSUME_STATS].get("isOrder")
    require_equal("isOrder of statistics of all topics", is_order, "false")


async def _names(bench: Bench, client: Client) -> None:
    """Require what the client reports of masters and clusters, also of unknown ones."""
    master, known = await bench.master(), await bench.brokers()
    for cluster in (master.cluster, None):
        names = sorted({one.name for one in known if cluster in (one.cluster, None)})
        found = await _found(client, "brokers", cluster=cluster)
        require_equal(f"the brokers of cluster {cluster}", found, names)
    address = await _found(client, "master", broker=master.name)
    expected = client.proxy.view.addresses[master.address]
    require_equal(f"the master of {master.name}", address, expected)
    for f, fields in (("brokers", {"cluster": "none"}), ("master", {"broker": "none"})):
        outcome = await client.request(f, **fields)
        require(outcome.type == "fail", f"{f} of a name that is not there: {outcome.value}")


async def _traced(bench: Bench, client: Client) -> None:
    """Require that the client reads traces of sends in the formats of all versions of RocketMQ."""
    topic, broker = await bench.topic(queues=1), await bench.broker()
    unique, message_id, host = f"{bench.fresh_number():032X}", "7F000001" + 24 * "0", "10.0.0.1"
    ends = (["true"], [message_id, "false"], [message_id, "true", host])
    sends = [
        ["Pub", str(time_ms), "r", "g", topic, unique, "", "", "127.0.0.1:10911", "5", "1", "0"]
        for time_ms in range(1, len(ends) + 1)
    ]
    records = [FIELD_END.join(send + end) for send, end in zip(sends, ends, strict=True)]
    body = "".join(record + RECORD_END for record in records).encode()
    await bench.store(broker, topic, body, properties={"KEYS": unique})
    await found_by_key(broker, topic, unique)
    found = await _found(client, "trace", topic=topic, key=unique)
    events = [["sent", None, None], ["failed", message_id, None], ["sent", message_id, host]]
    require_equal("the trace of three sends", found, {"events": events, "unreadable": 0})


def _requests_of(client: Client) -> dict[int, dict[str, str]]:
    """Return the table of the fields of the client's last requests by code; accounts are accepted for the broker."""
    asked: dict[int, dict[str, str]] = {}

    def note(request: RemotingCommand) -> RemotingCommand | None:
        asked[request.code] = dict(request.ext_fields)
        if request.code == RequestCode.UPDATE_AND_CREATE_ACL_CONFIG:
            return refusal(request, ResponseCode.SUCCESS, "")
        return None

    client.proxy.instead.append(note)
    return asked


async def _found(client: Client, f: str, **fields: object) -> object:
    outcome = await client.request(f, **fields)
    require(outcome.type == "ok", f"{f} ended with {outcome.error}")
    return outcome.value["found"]
