"""The administrator as a client process: creates topics, measures lags, looks messages up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from staticfire.harness.clients.contents import contents_of
from staticfire.harness.clients.payload import delivered_message
from staticfire.harness.clients.port import ClientSide, Outcome, PortClosed, Reply, Request
from staticfire.system_under_test.acl.signature import Credentials, signer_of
from staticfire.system_under_test.broker.administration.figures import TABLE_PREFIX
from staticfire.system_under_test.client.consumer.pulling import pull_command, read_messages
from staticfire.system_under_test.client.consumer.subscription import Subscription
from staticfire.system_under_test.protocol.bodies import (
    MessageQueue,
    TopicConfigTable,
    TopicRouteData,
)
from staticfire.system_under_test.protocol.bodies_queues import ConsumeStats, ResetOffsetBody
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.json_dialect import loads
from staticfire.system_under_test.protocol.message import RecordError, decode_records
from staticfire.system_under_test.remoting import RemotingClient, RemotingError
from staticfire.system_under_test.runtime.env import Env

TIMEOUT_S = 3.0
READER = "staticfire-look-up"  # the group with which the harness itself reads
LOOK_UPS_AT_ONCE = 16
SAME_TIME_MAX = 100  # messages read one by one to find the last one with the same store time
REFUSAL_MAX = 300  # kept characters of a remark
MENDING_TRIES, MENDING_PAUSE_S = (
    20,
    0.5,
)  # waits for a broker that fetches a record from its replicas
BUSY_TRIES, BUSY_PAUSE_S = 20, 0.1  # waits for a broker whose request queue is full
FIRST_OFFSET_TRIES, FIRST_OFFSET_PAUSE_S = 4, 2.0  # waits for a broker that is deleting log files


class AdminError(Exception):
    """A broker refused a request, or did not answer it."""


class BrokerFailed(AdminError):
    """A broker answered that it has failed (SYSTEM_ERROR)."""


Action = Callable[[RemotingClient, Request], Coroutine[object, object, dict[str, object]]]


async def serve_admin(env: Env, port: ClientSide, credentials: Credentials | None = None) -> None:
    """Carry out requests concurrently until the process ends, so that no request delays another.

    Raises PortClosed once the last request has its answer.
    """
    remoting = RemotingClient(env, sign=signer_of(credentials))
    running: dict[asyncio.Task[None], None] = {}
    try:
        while True:
            request, reply = await port.next()
            task = asyncio.get_running_loop().create_task(carry_out(remoting, request, reply))
            running[task] = None
            task.add_done_callback(running.pop)
    except PortClosed:
        await asyncio.gather(*running)
        raise
    finally:
        await remoting.close()


async def carry_out(remoting: RemotingClient, request: Request, reply: Reply) -> None:
    """Carry out a request, and reply in any case, since without a reply the harness would wait forever."""
    try:
        value = await ACTIONS[request["f"]](remoting, request)
    except (RemotingError, AdminError) as error:
        reply(Outcome("info", {}, str(error)))
    except (KeyError, TypeError, ValueError) as error:
        reply(Outcome("info", {}, f"the answer makes no sense: {error!r}"))
    else:
        reply(Outcome("ok", value))


async def ask(
    remoting: RemotingClient,
    address: str,
    code: RequestCode,
    ext: dict[str, str],
    body: bytes = b"",
) -> RemotingCommand:
    """Send a request.

    Raises AdminError for an answer other than success or QUERY_NOT_FOUND, RemotingError without an answer.
    """
    command = RemotingCommand.request(code, ext, body)
    answer = await remoting.invoke(address, command, TIMEOUT_S, close_on_timeout=True)
    if answer.code not in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND):
        raise _refusal(
            answer, f"{address} answered {code.name} with {answer.code}: {answer.remark}"
        )
    return answer


def _refusal(answer: RemotingCommand, text: str) -> AdminError:
    return (BrokerFailed if answer.code == ResponseCode.SYSTEM_ERROR else AdminError)(text)


async def create_topic(remoting: RemotingClient, request: Request) -> dict[str, object]:
    queues = str(request["queues"])
    ext = {
        "topic": request["topic"],
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    await ask(remoting, request["address"], RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
    return {}


async def order(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Send any administrator's request: `code`, fields `ext` and text `body`. Answers the text `body`."""
    code, body = RequestCode(request["code"]), request["body"].encode()
    answer = await ask(remoting, request["address"], code, request["ext"], body)
    return {"body": answer.body.decode()}


async def reset_offsets(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Reset a group's offsets on one broker to the beginning, or to the time of a message. The broker notifies the
    members.

    `share` (0 to 1) selects the message by its position in queue 0; 0 is the beginning of all queues. Answers
    `offsets` [[queue, offset]], at which a member must continue at the latest; none: at the beginning. Also answers the
    requested `time_ms`, the broker's `answers`, and `committed`, the group's former offsets as rows of the same form.
    """
    found = await _message_at(remoting, request) if request["share"] else None
    committed = await _committed(remoting, request)
    ext = {
        "topic": request["topic"],
        "group": request["group"],
        "timestamp": "0" if found is None else str(found[1]),
        "isForce": "true" if found is None else "false",
    }
    code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    answer = await ask(remoting, request["address"], code, ext)
    table = ResetOffsetBody.from_bytes(answer.body).offset_table
    answers = {queue.queue_id: offset for queue, offset in table.items()}
    offsets: dict[int, int] = {}
    if found is not None:
        asked_for = found[0]  # regardless of the broker's answer
        offsets = {**answers, 0: min(answers.get(0, asked_for), asked_for)}
    return {
        "offsets": _rows(offsets),
        "time_ms": 0 if found is None else found[1],
        "answers": _rows(answers),
        "committed": _rows(committed),
    }


def _rows(by_queue: Mapping[int, int]) -> list[list[int]]:
    return [list(row) for row in sorted(by_queue.items())]


async def _committed(remoting: RemotingClient, request: Request) -> dict[int, int]:
    """Return a group's committed offset in each queue of a topic on one broker; none if the broker does not answer."""
    where = {"consumerGroup": request["group"], "topic": request["topic"]}
    try:
        answer = await ask(remoting, request["address"], RequestCode.GET_CONSUME_STATS, where)
        table = ConsumeStats.from_bytes(answer.body).offset_table
    except (RemotingError, AdminError, ValueError):
        return {}
    return {queue.queue_id: position.consumer_offset for queue, position in table.items()}


async def _message_at(remoting: RemotingClient, request: Request) -> tuple[int, int] | None:
    """Return (offset, store time in ms) of the last message with the store time of the message at `share` of queue 0.

    None if the queue is empty, or if more than `SAME_TIME_MAX` messages have that time.
    """
    where = {"topic": request["topic"], "queueId": "0"}
    bounds = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
    answers = [await ask(remoting, request["address"], code, where) for code in bounds]
    low, high = (int(answer.ext_fields["offset"]) for answer in answers)
    offset = low + int(request["share"] * (high - 1 - low))
    stored_ms = await _stored_ms(remoting, request, 0, offset)
    if stored_ms is None:
        return None
    for following in range(offset + 1, offset + 2 + SAME_TIME_MAX):
        if following == high or await _stored_ms(remoting, request, 0, following) != stored_ms:
            return following - 1, stored_ms
    return None


async def queue_state(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Read the offsets of each queue of one broker: `queues` [[id, minimum, maximum, committed]].

    A group without a stored offset counts as committed at the minimum.
    """
    rows = (_one_queue(remoting, request, queue) for queue in range(request["queues"]))
    return {"queues": list(await asyncio.gather(*rows))}


async def _one_queue(remoting: RemotingClient, request: Request, queue: int) -> list[int]:
    address = request["address"]
    where = {"topic": request["topic"], "queueId": str(queue)}
    low, high, committed = await asyncio.gather(
        ask(remoting, address, RequestCode.GET_MIN_OFFSET, where),
        ask(remoting, address, RequestCode.GET_MAX_OFFSET, where),
        ask(
            remoting,
            address,
            RequestCode.QUERY_CONSUMER_OFFSET,
            {**where, "consumerGroup": request["group"]},
        ),
    )
    low_offset = max(int(low.ext_fields["offset"]), 0)
    done = int(committed.ext_fields.get("offset", low_offset))
    return [queue, low_offset, int(high.ext_fields["offset"]), max(done, low_offset)]


async def look_up(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Look up `messages` [[key, queue, queue offset, physical offset]] on one broker.

    Answers `messages` [[key, queue, queue offset, found by key, found by id, in its queue]]; `torn` [[key, queue, queue
    offset, error]] for messages whose answer held no valid record; and, for queues that lack some messages,
    `first_offsets` [[queue, first offset]], below which the broker has deleted messages, maybe during the look-up.
    """
    at_once = asyncio.Semaphore(LOOK_UPS_AT_ONCE)
    torn: list[list[Any]] = []

    async def find(message: list[Any]) -> list[Any] | None:
        async with at_once:
            try:
                return [*message[:3], *await _find(remoting, request, *message)]
            except RecordError as error:
                torn.append([*message[:3], str(error)])
                return None

    found = await asyncio.gather(*map(find, request["messages"]))
    messages = [row for row in found if row is not None]
    lacking: dict[int, int] = {}  # the last missing offset of each queue
    for _, queue, offset, *_, in_queue in messages:
        if not in_queue:
            lacking[queue] = max(offset, lacking.get(queue, 0))
    firsts = await _first_offsets(remoting, request, lacking)
    return {"messages": messages, "first_offsets": firsts, **({"torn": torn} if torn else {})}


async def _first_offsets(
    remoting: RemotingClient, request: Request, lacking: Mapping[int, int]
) -> list[list[int]]:
    """Return [queue, first offset] of the queues in `lacking`, which maps each queue to a missing offset.

    A broker deletes log files one by one, and raises the first offsets after the last file of a round. So if a queue
    lacks a message at or above its first offset, this function asks again a little later.
    """
    firsts: dict[int, int] = {}
    for tried in range(FIRST_OFFSET_TRIES):
        behind = [queue for queue, offset in lacking.items() if firsts.get(queue, 0) <= offset]
        if not behind:
            break
        if tried:
            await asyncio.sleep(FIRST_OFFSET_PAUSE_S)
        for queue in behind:
            firsts[queue] = await _first_offset(remoting, request, queue)
    return [[queue, first] for queue, first in firsts.items()]


async def search_times(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Search the queue offset for the store time of each message in `places` [[key, queue, queue offset]].

    Answers `searched` [[key, queue, queue offset, its store time, answer, store time there, store time before]] in ms
    for the messages that exist; None where no message is stored. If the broker fails, `refused` has [key, queue, queue
    offset, its error] instead.
    """
    searched, refused = [], []
    for key, queue, offset in request["places"]:
        try:
            found = await _searched(remoting, request, queue, offset)
        except BrokerFailed as error:
            refused.append([key, queue, offset, str(error)[:REFUSAL_MAX]])
            continue
        if found is not None:
            searched.append([key, queue, offset, *found])
    return {"searched": searched, **({"refused": refused} if refused else {})}


async def _searched(
    remoting: RemotingClient, request: Request, queue: int, offset: int
) -> list[int | None] | None:
    """Return a message's store time, the answer to a search for it, and the store times there and before; or None."""
    stored_ms = await _stored_ms(remoting, request, queue, offset)
    if stored_ms is None:
        return None
    where = {"topic": request["topic"], "queueId": str(queue), "timestamp": str(stored_ms)}
    code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    answer = await ask(remoting, request["address"], code, where)
    found = int(answer.ext_fields["offset"])
    times = [await _stored_ms(remoting, request, queue, at) for at in (found, found - 1)]
    return [stored_ms, found, *times]


async def _stored_ms(
    remoting: RemotingClient, request: Request, queue: int, offset: int
) -> int | None:
    """Return when the message at this offset was stored; None if there is none."""
    if offset < 0:
        return None
    where = MessageQueue(topic=request["topic"], broker_name="", queue_id=queue)
    everything = Subscription(where.topic, "*", version_ms=0)
    pull = pull_command(READER, where, everything, offset=offset, count_max=1)
    for _ in range(BUSY_TRIES):
        answer = await remoting.invoke(request["address"], pull, TIMEOUT_S, close_on_timeout=True)
        if answer.code != ResponseCode.SYSTEM_BUSY:
            break
        await asyncio.sleep(BUSY_PAUSE_S)
    if answer.code in (*NOTHING_THERE, ResponseCode.QUERY_NOT_FOUND):
        return None
    if answer.code != ResponseCode.SUCCESS:
        said = f"code {answer.code}, {answer.remark or 'without a word'}"
        raise _refusal(answer, f"{request['address']} does not say what lies at {offset}: {said}")
    return next(
        (of.store_timestamp_ms for of in decode_records(answer.body) if of.queue_offset == offset),
        None,
    )


async def _first_offset(remoting: RemotingClient, request: Request, queue: int) -> int:
    where = {"topic": request["topic"], "queueId": str(queue)}
    answer = await ask(remoting, request["address"], RequestCode.GET_MIN_OFFSET, where)
    return int(answer.ext_fields["offset"])


async def _find(
    remoting: RemotingClient, request: Request, key: str, queue: int, offset: int, position: int
) -> tuple[bool, bool | None, bool]:
    """Return whether the message is found by key, by id, and in its queue, which is read only if a query fails.

    By id the answer is None if the physical offset is unknown (below 0), because the id follows from it.
    """
    wanted = (key, position)
    by_key = {
        "topic": request["topic"],
        "key": key,
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": str((1 << 63) - 1),
    }
    by_id = {"offset": str(position)}
    address = request["address"]
    key_found, id_found = await asyncio.gather(
        _reads(remoting, address, wanted, RequestCode.QUERY_MESSAGE, by_key),
        _reads(remoting, address, wanted, RequestCode.VIEW_MESSAGE_BY_ID, by_id)
        if position >= 0
        else _not_asked(),
    )
    if key_found and id_found is not False:
        return True, id_found, True
    where = MessageQueue(topic=request["topic"], broker_name="", queue_id=queue)
    pull = pull_command(
        READER,
        where,
        Subscription(where.topic, "*", version_ms=0),
        offset=offset,
        count_max=1,
    )
    in_queue = await _pulls(remoting, address, wanted, offset, pull.ext_fields)
    if in_queue and not key_found and request.get("indexed", True):
        # The record was damaged, so the query omitted it, and the pull made the broker repair it.
        key_found = await _reads(remoting, address, wanted, RequestCode.QUERY_MESSAGE, by_key)
    return key_found, id_found, in_queue


async def _not_asked() -> None:
    """Return None instead of an answer."""


async def _reads(
    remoting: RemotingClient,
    address: str,
    wanted: tuple[str, int],
    code: RequestCode,
    ext: dict[str, str],
) -> bool:
    """Whether the answer holds the message with this key at this physical offset, or at any if it is below 0.

    Raises AdminError if the broker stays too busy, RemotingError without an answer.
    """
    return _holds(await _answer(remoting, address, code, ext), wanted)


async def _pulls(
    remoting: RemotingClient,
    address: str,
    wanted: tuple[str, int],
    offset: int,
    ext: dict[str, str],
) -> bool:
    """Whether a pull at `offset` returns the message.

    A broker repairs a damaged record before it answers a query by id. If the physical offset, and so the id, is
    unknown, the pull is the first request to meet the record, and is repeated while the broker repairs it. Raises what
    `_reads` raises.
    """
    _, position = wanted
    for tried in range(1 if position >= 0 else MENDING_TRIES + 1):
        if tried:
            await asyncio.sleep(MENDING_PAUSE_S)
        answer = await _answer(remoting, address, RequestCode.PULL_MESSAGE, ext)
        end = int(answer.ext_fields.get("maxOffset", 0))
        if answer.code not in NOTHING_YET or offset >= end:
            break
    return _holds(answer, wanted)


async def _answer(
    remoting: RemotingClient, address: str, code: RequestCode, ext: dict[str, str]
) -> RemotingCommand:
    for _ in range(BUSY_TRIES):
        command = RemotingCommand.request(code, ext)
        answer = await remoting.invoke(address, command, TIMEOUT_S, close_on_timeout=True)
        if answer.code != ResponseCode.SYSTEM_BUSY:
            return answer
        await asyncio.sleep(BUSY_PAUSE_S)
    raise AdminError(f"{address} was too busy for {code.name}: {answer.remark}")


def _holds(answer: RemotingCommand, wanted: tuple[str, int]) -> bool:
    if answer.code != ResponseCode.SUCCESS:
        return False
    key, position = wanted
    return any(
        message.properties.get("KEYS") == key
        and (position < 0 or message.physical_offset == position)
        for message in decode_records(answer.body)
    )


READ_MAX = 1 << 20  # messages
PASSED_MAX = 10_000  # answers of a broker that skips records
NOTHING_YET = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
NOTHING_THERE = (
    *NOTHING_YET,
    ResponseCode.PULL_OFFSET_MOVED,
    ResponseCode.TOPIC_NOT_EXIST,
)


async def read_queue(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Read the messages of one queue from `offset` on, or the first `limit` of them: `messages` as in the history.

    A queue that does not exist has none. The read is repeated while the broker repairs the next message, and
    passes over what the broker passes over.

    Answers `refusal`, the broker's error if it refuses the pull, and `incomplete` if the messages end before the queue,
    because the broker returned no more during `MENDING_TRIES` pauses.
    """
    where = MessageQueue(topic=request["topic"], broker_name="", queue_id=request["queue"])
    everything = Subscription(where.topic, "*", version_ms=0)
    messages: list[list[Any]] = []
    offset, limit = request.get("offset", 0), request.get("limit", READ_MAX)
    pauses = passed = 0
    while len(messages) < limit:
        pull = pull_command(READER, where, everything, offset=offset, count_max=min(limit, 32))
        answer = await remoting.invoke(request["address"], pull, TIMEOUT_S, close_on_timeout=True)
        if answer.code == ResponseCode.PULL_OFFSET_MOVED and not messages:
            following = int(answer.ext_fields["nextBeginOffset"])
            if following <= offset:
                return {"messages": messages}
        elif answer.code == ResponseCode.SUCCESS:
            read = read_messages(answer.body)
            messages += [[*delivered_message(message), contents_of(message)] for message in read]
            following = read[-1].queue_offset + 1
        elif answer.code in NOTHING_THERE:
            end = int(answer.ext_fields.get("maxOffset", 0))
            if offset >= end:
                break
            following = int(answer.ext_fields.get("nextBeginOffset") or offset)
            is_passed = answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and following > offset
            passed += is_passed
            if not is_passed or passed > PASSED_MAX:
                if pauses == MENDING_TRIES:
                    return {"messages": messages, "incomplete": _incomplete(offset, end, answer)}
                pauses += 1
                await asyncio.sleep(MENDING_PAUSE_S)
                continue
        else:
            refusal = f"code {answer.code}, {answer.remark or 'without a word'}"
            return {"messages": messages, "refusal": refusal}
        offset = following
    return {"messages": messages}


def _incomplete(offset: int, end: int, answer: RemotingCommand) -> str:
    waited_s = MENDING_TRIES * MENDING_PAUSE_S
    return (
        f"nothing came from offset {offset} on in {waited_s:g} s, and the queue ends at {end}: "
        f"code {answer.code}, {answer.remark or 'without a word'}"
    )


async def messages_served(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Read how many messages a broker has delivered to consumers since its start."""
    answer = await ask(remoting, request["address"], RequestCode.GET_BROKER_RUNTIME_INFO, {})
    return {"served": int(loads(answer.body)["table"]["msgGetTotalTodayNow"])}


async def table_sizes(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Read the sizes of the tables in memory of our broker, by name."""
    answer = await ask(remoting, request["address"], RequestCode.GET_BROKER_RUNTIME_INFO, {})
    table = loads(answer.body)["table"]
    sizes = {
        name.removeprefix(TABLE_PREFIX): int(size)
        for name, size in table.items()
        if name.startswith(TABLE_PREFIX)
    }
    return {"tables": sizes}


async def topics_known(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Read how many topics a name server knows."""
    code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    answer = await ask(remoting, request["address"], code, {})
    return {"topics": len(loads(answer.body)["topicList"])}


async def ping(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Check whether a broker or name server answers, with any code; `info` if not."""
    command = RemotingCommand.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    await remoting.invoke(request["address"], command, TIMEOUT_S, close_on_timeout=True)
    return {}


async def route(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Read a topic's route from a name server.

    Answers `brokers`, addresses by broker name and number, and `queues`, [read, write, permission] by broker name.
    Without a route both are empty.
    """
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    command = RemotingCommand.request(code, {"topic": request["topic"]})
    answer = await remoting.invoke(request["address"], command, TIMEOUT_S, close_on_timeout=True)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return {"brokers": {}, "queues": {}}
    if answer.code != ResponseCode.SUCCESS:
        raise AdminError(f"{request['address']} answered {code.name} with {answer.code}")
    data = TopicRouteData.from_json(loads(answer.body))
    return {
        "brokers": {
            broker.broker_name: {str(n): at for n, at in broker.broker_addrs.items()}
            for broker in data.broker_datas
        },
        "queues": {
            queues.broker_name: [queues.read_queue_nums, queues.write_queue_nums, queues.perm]
            for queues in data.queue_datas
        },
    }


async def topic_queues(remoting: RemotingClient, request: Request) -> dict[str, object]:
    """Read a topic from a broker's own table: `queues` [read, write, permission], null if it lacks the topic."""
    answer = await ask(remoting, request["address"], RequestCode.GET_ALL_TOPIC_CONFIG, {})
    topic = TopicConfigTable.from_bytes(answer.body).topics.get(request["topic"])
    if topic is None:
        return {"queues": None}
    return {"queues": [topic.read_queue_nums, topic.write_queue_nums, topic.perm]}


ACTIONS: dict[str, Action] = {
    "create_topic": create_topic,
    "order": order,
    "reset_offsets": reset_offsets,
    "queue_state": queue_state,
    "topics_known": topics_known,
    "route": route,
    "topic_queues": topic_queues,
    "ping": ping,
    "look_up": look_up,
    "search_times": search_times,
    "messages_served": messages_served,
    "table_sizes": table_sizes,
    "read_queue": read_queue,
}
