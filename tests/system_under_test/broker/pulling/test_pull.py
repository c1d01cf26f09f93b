"""The pull path: checks, codes, offsets, tags, and pulls that are held."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from staticfire.system_under_test.broker.config import BrokerRole
from staticfire.system_under_test.broker.metadata.offset_commits import OFFSET_MAX
from staticfire.system_under_test.broker.metadata.tag_filter import TAGS_LENGTH_MAX
from staticfire.system_under_test.broker.metadata.topics import PERM_WRITE, make_topic
from staticfire.system_under_test.broker.pulling import held_pulls as hold
from staticfire.system_under_test.broker.pulling.held_pulls import HeldPull, HeldPulls
from staticfire.system_under_test.broker.pulling.pull_filters import ALL_MESSAGES
from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import PullMessageHeader
from staticfire.system_under_test.protocol.message import Message, decode_records, encode_record
from staticfire.system_under_test.remoting.turn_share import TURN_S
from tests.system_under_test.broker.bench import Bench, Peer

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


def register(
    bench: Bench, *, expression: str = "*", version: int = 10, model: str = "CLUSTERING"
) -> None:
    """A heartbeat of group "consumers" that subscribes TopicTest."""
    subscription = SubscriptionData(topic="TopicTest", sub_string=expression, sub_version=version)
    consumer = ConsumerData(
        group_name="consumers", message_model=model, subscriptions=[subscription]
    )
    bench.clients.heartbeat(
        Peer().connection,
        HeartbeatData(client_id="c1", consumers=[consumer]),
        language=0,
        version=409,
    )


def test_a_long_list_of_tags_in_a_pull_is_refused(bench: Bench) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    answer = bench.pull(subscription="x" * TAGS_LENGTH_MAX)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    answer = bench.pull(subscription="x" * (TAGS_LENGTH_MAX + 1))
    assert answer is not None
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_a_pull_commits_no_offset_that_no_queue_can_have(bench: Bench) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    for commit in (OFFSET_MAX, OFFSET_MAX + 1, 2**63 - 1):
        bench.pull(sys_flag=SUBSCRIPTION | COMMIT, commit_offset=commit)
    assert bench.offsets.query("consumers", "TopicTest", 0) == OFFSET_MAX


@pytest.mark.parametrize(
    ("sent", "offset", "code", "remark", "next_offset"),
    [
        (3, 0, 0, "FOUND", 3),
        (3, 2, 0, "FOUND", 3),
        (3, 3, 19, "OFFSET_OVERFLOW_ONE", 3),
        (3, 4, 21, "OFFSET_OVERFLOW_BADLY", 3),
        (0, 0, 19, "NO_MESSAGE_IN_QUEUE", 0),
        (0, 5, 21, "NO_MESSAGE_IN_QUEUE", 0),
    ],
)
def test_codes_and_offsets(
    bench: Bench, sent: int, offset: int, code: int, remark: str, next_offset: int
) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    for _ in range(sent):
        bench.send()
    answer = bench.pull(offset=offset)
    assert answer is not None
    assert (answer.code, answer.remark) == (code, remark)
    assert answer.ext_fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": "0",
        "maxOffset": str(sent),
    }
    assert len(decode_records(answer.body)) == (next_offset - offset if code == 0 else 0)


def test_tags_are_compared_by_hash(bench: Bench) -> None:
    for tag in ("a", "b", "c", "a"):
        bench.send(body=tag.encode(), properties={"TAGS": tag})
    bench.send(body=b"untagged")
    answer = bench.pull(subscription=" a || c ")
    assert answer is not None
    assert [message.body for message in decode_records(answer.body)] == [b"a", b"c", b"a"]
    nothing = bench.pull(subscription="zzz", offset=1)
    assert nothing is not None
    assert (nothing.code, nothing.ext_fields["nextBeginOffset"]) == (20, "5")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"topic": "Unknown"}, 17),
        ({"topic": "WriteOnly"}, 16),
        ({"queue_id": 4}, 1),
        ({"queue_id": -1}, 1),
        ({"expression_type": "SQL92", "subscription": "a > 1"}, 1),
        ({"subscription": "||"}, 23),
        ({"group": "disabled"}, 16),
        ({"sys_flag": 0}, 24),
    ],
)
def test_refusals(bench: Bench, options: dict[str, Any], code: int) -> None:
    bench.send()
    bench.topics.put(make_topic("WriteOnly", 4, PERM_WRITE))
    bench.groups.put(SubscriptionGroupConfig(group_name="disabled", consume_enable=False))
    topic = str(options.pop("topic", "TopicTest"))
    answer = bench.pull(topic, **options)
    assert answer is not None
    assert answer.code == code
    assert answer.remark


def test_unknown_group_that_may_not_be_created(bench: Bench) -> None:
    bench.send()
    bench.config.auto_create_groups = False
    answer = bench.pull()
    assert answer is not None
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_subscription_of_the_heartbeat(bench: Bench) -> None:
    for tag in ("a", "b"):
        bench.send(body=tag.encode(), properties={"TAGS": tag})
    register(bench, expression="b")
    answer = bench.pull(sys_flag=0, sub_version=10)
    assert answer is not None
    assert [message.body for message in decode_records(answer.body)] == [b"b"]


def test_newer_subscription_than_the_broker_knows(bench: Bench) -> None:
    bench.send()
    register(bench, version=10)
    answer = bench.pull(sys_flag=0, sub_version=11)
    assert answer is not None
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_topic_that_the_group_does_not_subscribe(bench: Bench) -> None:
    bench.send("Other")
    register(bench)
    answer = bench.pull("Other", sys_flag=0)
    assert answer is not None
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_EXIST


def test_broadcast_that_the_group_forbids(bench: Bench) -> None:
    bench.send()
    bench.groups.put(
        SubscriptionGroupConfig(group_name="consumers", consume_broadcast_enable=False)
    )
    register(bench, model="BROADCASTING")
    answer = bench.pull(sys_flag=0)
    assert answer is not None
    assert answer.code == ResponseCode.NO_PERMISSION


# Committing offsets


def test_commit_flag(bench: Bench) -> None:
    bench.send()
    bench.pull(sys_flag=SUBSCRIPTION, commit_offset=1)
    assert bench.offsets.query("consumers", "TopicTest", 0) is None
    bench.pull(sys_flag=SUBSCRIPTION | COMMIT, commit_offset=1)
    assert bench.offsets.query("consumers", "TopicTest", 0) == 1


def test_held_pull_commits_once(bench: Bench) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    assert bench.pull(sys_flag=SUBSCRIPTION | SUSPEND | COMMIT, commit_offset=5) is None
    assert bench.offsets.query("consumers", "TopicTest", 0) == 5
    bench.offsets.commit("consumers", "TopicTest", 0, 9)
    bench.send()
    assert bench.offsets.query("consumers", "TopicTest", 0) == 9


def test_refused_pull_and_slave_commit_nothing(bench: Bench, slave_bench: Bench) -> None:
    bench.pull("Unknown", sys_flag=SUBSCRIPTION | COMMIT, commit_offset=5)
    assert not bench.offsets.changed
    slave_bench.topics.put(make_topic("TopicTest", 4))
    slave_bench.pull(sys_flag=SUBSCRIPTION | COMMIT, commit_offset=5)
    assert not slave_bench.offsets.changed


# Holding


def test_held_pull_is_woken_by_the_next_message(bench: Bench) -> None:
    bench.send()
    peer = Peer()
    assert bench.pull(offset=1, sys_flag=SUBSCRIPTION | SUSPEND, peer=peer) is None
    bench.send(queue_id=1)
    assert peer.sent == []
    bench.send()
    answer = peer.take()
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (0, "2")
    assert len(bench.held) == 0


def test_woken_pulls_are_answered_in_later_turns_once_this_one_is_over(bench: Bench) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    peers = [Peer(1), Peer(2), Peer(3)]
    for peer in peers:
        bench.pull(sys_flag=SUBSCRIPTION | SUSPEND, peer=peer)

    async def main() -> None:
        bench.share.spend(TURN_S, asyncio.get_running_loop())
        bench.send()
        assert [peer.sent for peer in peers] == [[], [], []]
        peers[1].close()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert [len(peer.sent) for peer in peers] == [1, 0, 1]


def test_held_pull_is_not_woken_by_another_tag_but_moves_on_at_the_check(bench: Bench) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    peer = Peer()
    bench.pull(subscription="a", sys_flag=SUBSCRIPTION | SUSPEND, peer=peer)
    bench.send(properties={"TAGS": "b"})
    assert peer.sent == []
    bench.pull_processor.check_held()
    answer = peer.take()
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (20, "1")


def test_held_pull_ends_with_its_hold_time(bench: Bench) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    peer = Peer()
    bench.pull(sys_flag=SUBSCRIPTION | SUSPEND, peer=peer, hold_ms=15_000)
    bench.clock.move(14.9)
    bench.pull_processor.check_held()
    assert peer.sent == []
    bench.clock.move(0.1)
    bench.pull_processor.check_held()
    assert peer.take().code == ResponseCode.PULL_NOT_FOUND


def test_held_pull_of_a_closed_connection_is_forgotten(bench: Bench) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    peer = Peer()
    bench.pull(sys_flag=SUBSCRIPTION | SUSPEND, peer=peer)
    peer.close()
    bench.pull_processor.check_held()
    assert len(bench.held) == 0


def test_pulls_beyond_the_limits_are_answered_at_once(bench: Bench) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    one, two, three = Peer(1), Peer(2), Peer(3)

    def codes(*peers: Peer) -> list[int | None]:
        """None for a pull that is held."""
        answers = [bench.pull(sys_flag=SUBSCRIPTION | SUSPEND, peer=peer) for peer in peers]
        return [None if answer is None else answer.code for answer in answers]

    assert codes(one, one, one, two, two, three) == [None, None, 19, None, None, 19]
    one.closed = True
    bench.pull_processor.check_held()
    assert codes(three, three, three) == [None, None, 19]


def test_a_pull_with_a_long_subscription_is_not_held(bench: Bench) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    answer = bench.pull(subscription="a" * 20_000, sys_flag=SUBSCRIPTION | SUSPEND)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_NOT_FOUND


def test_wrong_offset_is_never_held_on_a_master(bench: Bench) -> None:
    bench.send()
    answer = bench.pull(offset=9, sys_flag=SUBSCRIPTION | SUSPEND)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED


def test_slave_that_lags_holds_and_never_corrects_an_offset(slave_bench: Bench) -> None:
    slave_bench.topics.put(make_topic("TopicTest", 4))
    peer = Peer()
    assert slave_bench.pull(offset=9, sys_flag=SUBSCRIPTION | SUSPEND, peer=peer) is None
    slave_bench.clock.move(15)
    slave_bench.pull_processor.check_held()
    answer = peer.take()
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (20, "9")


def test_a_master_in_catch_up_holds_what_is_beyond_its_end(bench: Bench) -> None:
    """A slave may have given the consumer what the master is about to fetch."""
    bench.send()
    bench.is_ready = False
    peer = Peer()
    assert bench.pull(offset=9, sys_flag=SUBSCRIPTION | SUSPEND, peer=peer) is None
    bench.clock.move(15)
    bench.pull_processor.check_held()
    answer = peer.take()
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (20, "9")
    bench.is_ready = True
    corrected = bench.pull(offset=9, sys_flag=SUBSCRIPTION | SUSPEND)
    assert corrected is not None
    assert (corrected.code, corrected.ext_fields["nextBeginOffset"]) == (21, "1")


def test_slave_corrects_offsets_if_configured() -> None:
    slave = Bench(BrokerRole.SLAVE, offset_check_in_slave=True)
    slave.is_ready = False
    slave.topics.put(make_topic("TopicTest", 4))
    answer = slave.pull(offset=9, sys_flag=SUBSCRIPTION | SUSPEND)
    assert answer is not None
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (21, "0")


def test_slave_serves_a_queue_that_its_copy_of_the_topics_does_not_know(slave_bench: Bench) -> None:
    """The log is replicated at once, topics and groups every 10 s; the master may be gone by then."""
    record = encode_record(Message(topic="TopicTest", body=b"x", queue_id=3))
    slave_bench.store.append_raw(0, bytes(record))
    slave_bench.publish()
    answer = slave_bench.pull(queue_id=3)
    assert answer is not None
    assert (answer.code, len(decode_records(answer.body))) == (ResponseCode.SUCCESS, 1)


def test_how_much_a_pull_gets_may_change_while_the_broker_runs() -> None:
    bench = Bench(transfer_memory_count=3)
    for _ in range(9):
        bench.send()
    assert pulled(bench) == 3
    live = bench.administration.live_config
    live.update("maxTransferCountOnMessageInMemory=5\nmaxTransferCountOnMessageInDisk=2\n")
    assert pulled(bench) == 5
    live.update("accessMessageInMemoryMaxRatio=0\n")
    assert pulled(bench) == 2


def pulled(bench: Bench) -> int:
    """How many messages a pull from the beginning gets."""
    answer = bench.pull(offset=0)
    assert answer is not None
    return len(decode_records(answer.body))


# Slave reads

NOT_BEHIND = {"memory_bytes": 1 << 20}
FAR_BEHIND = {"memory_bytes": 1000}  # what lies further back than this is taken to be on the disk


@pytest.mark.parametrize(
    ("options", "suggested"),
    [
        ({"slave_read": True}, ("2", "0")),
        ({"slave_read": False}, ("0", "0")),
        ({"slave_read": True, **NOT_BEHIND}, ("0", "0")),
    ],
)
def test_a_group_that_is_far_behind_is_sent_to_the_slave(
    options: dict[str, Any], suggested: tuple[str, str]
) -> None:
    bench = Bench(**{**FAR_BEHIND, **options})
    bench.groups.put(
        SubscriptionGroupConfig(group_name="consumers", which_broker_when_consume_slowly=2)
    )
    for _ in range(10):
        bench.send(body=b"x" * 300)
    first, last = bench.pull(offset=0, count=1), bench.pull(offset=9)
    assert first is not None
    assert last is not None
    assert first.code == last.code == ResponseCode.SUCCESS
    assert (suggestion(first), suggestion(last)) == suggested


def test_a_slave_sends_groups_that_have_caught_up_back_to_the_master() -> None:
    slave = Bench(BrokerRole.SLAVE, slave_read=True, memory_bytes=1 << 20)
    record = encode_record(Message(topic="TopicTest", body=b"x", queue_id=0))
    slave.store.append_raw(0, bytes(record))
    slave.publish()
    answer = slave.pull()
    assert answer is not None
    assert suggestion(answer) == "0"


def suggestion(answer: RemotingCommand) -> str:
    return answer.ext_fields["suggestWhichBrokerId"]


def test_the_text_of_all_held_pulls_is_bounded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "TEXT_LENGTH_MAX", 250)
    held = HeldPulls()

    def pull(subscription: str) -> HeldPull:
        header = PullMessageHeader(
            consumer_group="g",
            topic="t",
            queue_id=0,
            queue_offset=0,
            max_msg_nums=1,
            sys_flag=0,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription=subscription,
        )
        request = RemotingCommand.request(11, {"large": "x" * 1000}, b"large")
        return HeldPull(Peer().connection, request, header, ALL_MESSAGES, 5)

    assert [held.hold(pull("x" * 99)) for _ in range(3)] == [True, True, False]
    first, second = held.take_due(5, lambda _topic, _queue: 0)
    assert (first.request.ext_fields, second.request.body) == (
        {},
        b"",
    )  # of a request, no more is kept
    assert held.hold(pull("x" * 99))
