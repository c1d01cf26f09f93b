"""Transactions: commit, rollback, the check, parked messages; what 4.9.8 does differently."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from staticfire.system_under_test.broker.delivery import half_messages
from staticfire.system_under_test.broker.delivery.transaction_policy import FIRST_STORED_PROPERTY
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol.bodies import HeartbeatData
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, decode_record
from tests.system_under_test.broker.bench import Bench, Peer
from tests.system_under_test.store.forged_records import body_with_record

END, RESUME = 37, 323
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
HALF, OP, PARKED = (
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
)
GROUP = "CID_RMQ_SYS_TRANS"


class TransactionBench(Bench):
    """A bench with one producer, which is connected from the beginning."""

    def __init__(self, mode: Mode = Mode.HARDENED) -> None:
        super().__init__(mode=mode)
        self.producer = Peer(key=7)
        self.connect(self.producer)
        self.begin()

    def connect(self, peer: Peer, client_id: str = "p@1") -> None:
        heartbeat = HeartbeatData(client_id=client_id, producer_groups=["producers"], consumers=[])
        self.clients.heartbeat(peer.connection, heartbeat, language=0, version=409)

    def begin(self) -> None:
        """What a broker does when its log is complete, without the timer of delays."""
        self.services._halves.begin()
        self.services._has_begun = True

    def next_life(self) -> TransactionBench:
        """The same store in a broker that has started again."""
        again = TransactionBench.__new__(TransactionBench)
        again.__dict__.update(self.__dict__)
        again.services = self._make_services(self.services._env)
        again.begin()
        return again

    def half(self, body: bytes = b"x", born_ms: int | None = None, **properties: str) -> Message:
        """Send a half message; return it as stored."""
        wanted = {"TRAN_MSG": "true", "PGROUP": "producers", "UNIQ_KEY": "U1", **properties}
        born = self.clock.now_ms if born_ms is None else born_ms
        answer = self.send(queue_id=1, sys_flag=4, body=body, properties=wanted, g=born, h=5)
        assert answer.code == 0, answer.remark
        return self.stored(HALF)[-1]

    def end(self, half: Message, how: int, **fields: object) -> RemotingCommand | None:
        return self.ask_service(END, self.end_ext(half, how, **fields))

    def end_ext(self, half: Message, how: int, **fields: object) -> dict[str, str]:
        ext = {
            "producerGroup": "producers",
            "tranStateTableOffset": half.queue_offset,
            "commitLogOffset": half.physical_offset,
            "commitOrRollback": how,
            "msgId": "U1",
            **fields,
        }
        return {name: str(value) for name, value in ext.items()}

    def code_of_end(self, half: Message, how: int, **fields: object) -> int | None:
        answer = self.end(half, how, **fields)
        return None if answer is None else answer.code

    def check(self, after_s: float = 60) -> list[RemotingCommand]:
        """One round; return what the producer was asked."""
        self.clock.move(after_s)
        asyncio.run(self.services.check_transactions())
        self.publish()
        asyncio.run(self.services.save())
        asked, self.producer.sent = self.producer.sent, []
        return asked

    def visible(self) -> list[bytes]:
        return [message.body for message in self.stored("TopicTest", 1)]

    def progress(self) -> tuple[int | None, int | None]:
        return self.offsets.query(GROUP, HALF, 0), self.offsets.query(GROUP, OP, 0)


@pytest.fixture
def bench() -> TransactionBench:
    return TransactionBench()


def test_commit_makes_visible(bench: TransactionBench) -> None:
    half = bench.half(b"x", TAGS="TagA")
    assert bench.visible() == []
    assert bench.code_of_end(half, COMMIT) == 0
    (message,) = bench.stored("TopicTest", 1)
    assert (message.body, message.sys_flag, message.flag) == (b"x", 8, 5)
    assert message.prepared_transaction_offset == half.physical_offset
    assert message.properties == half.properties
    assert message.born_host == half.born_host
    (op,) = bench.stored(OP)
    assert (op.body, op.properties) == (b"0", {"TAGS": "d", "WAIT": "true"})
    assert bench.check() == []
    assert bench.progress() == (1, 1)


def test_rollback_is_never_visible(bench: TransactionBench) -> None:
    half = bench.half()
    assert bench.code_of_end(half, ROLLBACK) == 0
    assert bench.check() == []
    assert bench.visible() == []
    assert [op.body for op in bench.stored(OP)] == [b"0"]


def test_unknown_is_not_answered_and_asked_about(bench: TransactionBench) -> None:
    half = bench.half()
    assert bench.end(half, UNKNOWN) is None
    assert bench.check(5.9) == []
    (check,) = bench.check(0.2)
    assert check.code == 39
    back = bench.stored(HALF)[1]
    assert check.ext_fields == {
        "tranStateTableOffset": "1",
        "commitLogOffset": str(back.physical_offset),
        "msgId": "U1",
        "transactionId": "U1",
        "offsetMsgId": f"0A00000100002A9F{back.physical_offset:016X}",
    }
    shown = decode_record(check.body, check_crc=True)
    assert (shown.topic, shown.queue_id, shown.body, shown.flag) == ("TopicTest", 1, b"x", 5)
    assert shown.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert shown.properties["WAIT"] == "false"
    assert FIRST_STORED_PROPERTY in back.properties
    assert bench.code_of_end(back, COMMIT, fromTransactionCheck="true") == 0
    assert bench.visible() == [b"x"]
    assert FIRST_STORED_PROPERTY not in bench.stored("TopicTest", 1)[0].properties
    assert bench.check() == []


def test_refused_ends(bench: TransactionBench) -> None:
    half = bench.half()
    assert bench.code_of_end(half, COMMIT, producerGroup="others") == 1
    assert bench.code_of_end(half, COMMIT, tranStateTableOffset=7) == 1
    assert bench.code_of_end(half, COMMIT, commitLogOffset=7) == 1
    bench.send()
    (ordinary,) = bench.stored("TopicTest", 0)
    assert bench.code_of_end(ordinary, COMMIT) == 1
    bench.is_ready = False
    assert bench.code_of_end(half, COMMIT) == 14
    with pytest.raises(ValueError, match="commitOrRollback is 4"):
        bench.end(half, 4)
    assert bench.visible() == []


def test_slave_refuses(slave_bench: Bench) -> None:
    ext = {
        "producerGroup": "p",
        "tranStateTableOffset": "0",
        "commitLogOffset": "0",
        "commitOrRollback": "8",
        "msgId": "U",
    }
    answer = slave_bench.ask_service(END, ext)
    assert answer is not None
    assert answer.code == 11


@pytest.mark.parametrize(
    ("mode", "visible"), [(Mode.HARDENED, [b"x"]), (Mode.FAITHFUL, [b"x", b"x"])]
)
def test_second_commit(mode: Mode, visible: list[bytes]) -> None:
    bench = TransactionBench(mode)
    half = bench.half()
    bench.end(half, COMMIT)
    assert bench.code_of_end(half, COMMIT) == (1 if mode is Mode.HARDENED else 0)
    assert bench.visible() == visible


def test_commit_after_rollback_is_refused(bench: TransactionBench) -> None:
    half = bench.half()
    bench.end(half, ROLLBACK)
    assert bench.code_of_end(half, COMMIT) == 1
    bench.check()
    assert bench.code_of_end(half, COMMIT) == 1
    assert bench.visible() == []


def test_late_commit_of_a_half_message_that_was_put_back(bench: TransactionBench) -> None:
    half = bench.half()
    assert len(bench.check()) == 1
    assert len(bench.check()) == 1
    assert bench.code_of_end(half, COMMIT) == 0  # its producer does not know the new place
    assert bench.visible() == [b"x"]
    assert bench.check() == []
    assert bench.code_of_end(half, COMMIT) == 1


@pytest.mark.parametrize("named", range(4))
def test_an_answer_that_travels_for_longer_than_rounds_take_ends_the_transaction(
    bench: TransactionBench, named: int
) -> None:
    """Each question names another copy, and the answer to any of them counts: once."""
    bench.half()
    for _ in range(3):
        assert len(bench.check()) == 1
    copies = bench.stored(HALF)
    assert bench.code_of_end(copies[named], COMMIT) == 0
    assert bench.visible() == [b"x"]
    assert bench.check() == []
    for copy in copies:
        assert bench.code_of_end(copy, COMMIT) == 1
    assert bench.stored(PARKED) == []


def test_offsets_that_no_producer_knows_are_not_kept(bench: TransactionBench) -> None:
    half = bench.half()
    bench.clients.connection_closed(bench.producer.connection)
    for _ in range(5):
        assert bench.check() == []
    bench.connect(bench.producer)
    assert len(bench.check()) == 1
    assert sorted(bench.services._halves._moved) == [0, 6]
    assert bench.code_of_end(half, COMMIT) == 0
    assert not bench.services._halves._moved


@pytest.mark.parametrize("named", [0, 7, 15])
def test_an_answer_that_comes_after_the_message_was_parked_counts(
    bench: TransactionBench, named: int
) -> None:
    bench.half()
    for _ in range(16):
        bench.check()
    assert len(bench.stored(PARKED)) == 1
    half = bench.stored(HALF)[named]
    assert bench.code_of_end(half, COMMIT) == 0
    assert bench.visible() == [b"x"]
    assert bench.code_of_end(half, COMMIT) == 1


def test_what_was_parked_long_ago_is_forgotten(
    bench: TransactionBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_messages, "PARKED_MAX", 1)
    halves = [bench.half(UNIQ_KEY=key) for key in ("U1", "U2")]
    for _ in range(16):
        bench.check()
    assert len(bench.stored(PARKED)) == 2
    assert [bench.code_of_end(half, COMMIT) for half in halves] == [1, 0]


def test_half_message_is_parked_after_fifteen_checks_and_can_be_revived(
    bench: TransactionBench,
) -> None:
    bench.half()
    assert [len(bench.check()) for _ in range(17)] == [1] * 15 + [0] * 2
    (parked,) = bench.stored(PARKED)
    assert parked.properties["TRANSACTION_CHECK_TIMES"] == "15"
    assert bench.topics.get(PARKED) is not None
    message_id = f"0A00000100002A9F{parked.physical_offset:016X}"
    answer = bench.ask_service(RESUME, {"msgId": message_id})
    assert answer is not None
    assert answer.code == 0
    assert bench.code_of_end(bench.stored(HALF)[0], COMMIT) == 1  # a new one takes its place
    (check,) = bench.check()
    back = bench.stored(HALF)[-1]
    assert back.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert check.ext_fields["commitLogOffset"] == str(back.physical_offset)
    bench.end(back, COMMIT)
    assert bench.visible() == [b"x"]


@pytest.mark.parametrize("message_id", ["", "x", "0A00000100002A9F0000000000000000"])
def test_only_parked_messages_are_revived(bench: TransactionBench, message_id: str) -> None:
    bench.half()
    answer = bench.ask_service(RESUME, {"msgId": message_id})
    assert answer is not None
    assert answer.code == 1
    assert len(bench.stored(HALF)) == 1


@pytest.mark.parametrize(("mode", "parked"), [(Mode.HARDENED, 0), (Mode.FAITHFUL, 1)])
def test_no_producer_is_there_to_be_asked(mode: Mode, parked: int) -> None:
    """4.9.8 counts checks that it could not send (issue 8311)."""
    bench = TransactionBench(mode)
    bench.clients.connection_closed(bench.producer.connection)
    bench.half()
    for _ in range(20):
        bench.check()
    assert len(bench.stored(PARKED)) == parked
    bench.connect(bench.producer)
    assert len(bench.check()) == 1 - parked


@pytest.mark.parametrize(("mode", "on_old"), [(Mode.HARDENED, 0), (Mode.FAITHFUL, 2)])
def test_producer_that_has_connected_anew(mode: Mode, on_old: int) -> None:
    """4.9.8 asks on its old connection, too, although the network may have swallowed the end of that.

    The old one stays old when the producer leaves: it is asked there once a heartbeat comes over it again.
    """
    bench = TransactionBench(mode)
    new = Peer(key=8)
    bench.connect(new)
    bench.half()
    assert sum(len(bench.check()) for _ in range(4)) == on_old
    assert len(new.sent) == 4 - on_old
    bench.clients.connection_closed(new.connection)
    assert len(bench.check()) == (1 if on_old else 0)
    bench.connect(bench.producer)  # it is still there
    assert len(bench.check()) == 1


@pytest.mark.parametrize(("mode", "asked"), [(Mode.HARDENED, 1), (Mode.FAITHFUL, 0)])
def test_clock_of_a_producer_that_is_days_slow(mode: Mode, asked: int) -> None:
    """4.9.8 believes the born time and gives the message up unasked (issue 9640)."""
    bench = TransactionBench(mode)
    bench.half(born_ms=bench.clock.now_ms - 4 * 24 * 3_600_000)
    assert len(bench.check()) == asked
    assert len(bench.stored(PARKED)) == 1 - asked


@pytest.mark.parametrize(("mode", "asked"), [(Mode.HARDENED, 0), (Mode.FAITHFUL, 1)])
def test_clock_that_was_set_back(mode: Mode, asked: int) -> None:
    """Log times never go back: what is stored after the step seems to be from the future."""
    bench = TransactionBench(mode)
    bench.clock.monotonic_ns = lambda: bench.clock.now_ms * 1_000_000  # type: ignore[method-assign]
    hour_ms = 3_600_000
    bench.clock.now_ms += hour_ms
    bench.send()
    bench.clock.now_ms -= hour_ms
    half = bench.half(born_ms=bench.clock.now_ms + hour_ms)
    assert half.store_timestamp_ms == bench.clock.now_ms + hour_ms
    assert len(bench.check(1)) == asked
    assert len(bench.check(4)) == asked  # again, or still too young
    assert len(bench.check(60)) == 1


def test_immunity(bench: TransactionBench) -> None:
    """Not asked before its time, not forgotten after it, and others behind it are asked meanwhile."""
    immune = bench.half(b"immune", CHECK_IMMUNITY_TIME_IN_SECONDS="150")
    bench.half(b"other", UNIQ_KEY="U2")
    asked = [[check.ext_fields["msgId"] for check in bench.check()] for _ in range(3)]
    assert asked == [["U2"], ["U2"], ["U1", "U2"]]
    back = [half for half in bench.stored(HALF) if half.properties["UNIQ_KEY"] == "U1"][-1]
    assert back.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert back.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert bench.code_of_end(immune, COMMIT) == 0
    assert bench.visible() == [b"immune"]


def test_fresh_half_messages_are_left_alone(bench: TransactionBench) -> None:
    bench.half()
    assert bench.check(1) == []
    assert len(bench.stored(HALF)) == 1
    assert bench.progress() == (None, None)


def test_rounds_without_transactions_are_not_remembered(bench: TransactionBench) -> None:
    for _ in range(20):
        bench.check()
    assert len(bench.services._check._rounds) == 1


@pytest.mark.parametrize(("mode", "asked"), [(Mode.HARDENED, ["U2"]), (Mode.FAITHFUL, [])])
def test_half_message_that_cannot_be_read(mode: Mode, asked: list[str]) -> None:
    """4.9.8 never gets past it (issue 1568)."""
    bench = TransactionBench(mode)
    broken = bench.half()
    bench.half(UNIQ_KEY="U2")
    path = "/store/commitlog/" + "0" * 20
    bench.disk.open(path).pwrite(b"?", broken.physical_offset + 88)
    bench.clock.move(60)
    asyncio.run(bench.services.check_transactions())
    assert bench.producer.sent == []  # a replica may have a copy
    bench.store.give_up(broken.physical_offset)
    bench.clock.move(60)
    asyncio.run(bench.services.check_transactions())
    assert [check.ext_fields["msgId"] for check in bench.producer.sent] == asked


@pytest.mark.parametrize(("mode", "flag"), [(Mode.HARDENED, 5), (Mode.FAITHFUL, 0)])
def test_flag_of_a_half_message_that_was_put_back(mode: Mode, flag: int) -> None:
    bench = TransactionBench(mode)
    bench.half()
    bench.check()
    assert bench.stored(HALF)[1].flag == flag


def test_full_disk_stops_the_round_and_loses_nothing(bench: TransactionBench) -> None:
    bench.half(bytes(400_000))
    bench.half(bytes(400_000), UNIQ_KEY="U2")
    assert bench.check(1) == []  # makes the topic
    bench.disk.fill()
    assert bench.check() == []
    bench.disk.free()
    assert len(bench.check()) == 2


def test_progress_is_written_down_when_copies_are_safe(bench: TransactionBench) -> None:
    bench.half()
    bench.clock.move(60)
    asyncio.run(bench.services.check_transactions())
    assert bench.progress() == (None, None)  # the copy is not flushed
    bench.publish()
    asyncio.run(bench.services.save())
    assert bench.progress() == (1, None)


@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
def test_end_counts_when_it_is_safe(bench: TransactionBench, how: int) -> None:
    """Else a power cut takes the message and its op message, and the half message is never looked at again."""
    half = bench.half()
    ext = bench.end_ext(half, how)
    handler = bench.services.handlers(bench.send_processor)[END]
    handler(Peer().connection, RemotingCommand.request(END, ext))
    bench.clock.move(60)
    asyncio.run(bench.services.check_transactions())
    assert bench.progress() == (None, None)
    bench.publish()
    asyncio.run(bench.services.save())
    assert bench.progress() == (1, 1)


@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
def test_next_life_knows_what_is_over(bench: TransactionBench, how: int) -> None:
    over, still_open = bench.half(), bench.half(UNIQ_KEY="U2")
    bench.end(over, how)
    again = bench.next_life()
    assert again.code_of_end(over, COMMIT) == 1
    assert [check.ext_fields["msgId"] for check in again.check()] == ["U2"]
    assert again.code_of_end(still_open, COMMIT) == 0
    assert bench.progress()[0] == 2


@pytest.mark.parametrize("has_copy", [True, False])
def test_next_life_waits_for_the_repair_of_what_says_that_a_transaction_is_over(
    bench: TransactionBench, has_copy: bool
) -> None:
    over = bench.half()
    bench.end(over, ROLLBACK)
    bench.publish()
    (op,) = bench.stored(OP)
    copy = bench.store.look_up(op.physical_offset)
    assert copy is not None
    start = op.physical_offset
    body_at = start + copy.index(op.body, 80)
    bench.disk.flip_bit("/store/commitlog/" + "0" * 20, within=(body_at, body_at + 1))
    again = bench.next_life()
    assert again.check() == []
    if has_copy:
        assert bench.store.mend_record(start, copy)
    else:
        bench.store.give_up(start)
    assert len(again.check()) == (0 if has_copy else 1)
    assert again.progress()[0] == 1


def test_committed_message_may_ask_for_a_delay(bench: TransactionBench) -> None:
    half = bench.half(DELAY="2")
    bench.end(half, COMMIT)
    assert bench.visible() == []
    (delayed,) = bench.stored("SCHEDULE_TOPIC_XXXX", 1)
    assert delayed.properties["REAL_TOPIC"] == "TopicTest"


def test_end_waits_like_a_send(bench: TransactionBench) -> None:
    half = bench.half()
    peer = Peer()
    ext = bench.end_ext(half, COMMIT)
    handler = bench.services.handlers(bench.send_processor)[END]
    assert handler(peer.connection, RemotingCommand.request(END, ext)) is None
    (end_offset, answer, waits), _ = bench.waiting
    assert waits
    assert end_offset < bench.store.end_offset  # the op message follows
    assert peer.sent == []
    answer(ResponseCode.FLUSH_SLAVE_TIMEOUT)
    assert peer.take().code == 12


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("queue_offset", [0, 1, 2])
@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
def test_a_half_message_inside_a_body_cannot_be_ended(
    mode: Mode, queue_offset: int, how: int
) -> None:
    bench = TransactionBench(mode)
    bench.half(b"real")
    bench.half(b"other")
    destination = {"REAL_TOPIC": "Denied", "REAL_QID": "0", "PGROUP": "producers"}
    inner = Message(topic=HALF, body=b"forged", properties=destination, queue_offset=queue_offset)
    body, offset = body_with_record(bench.store, inner)
    bench.send(body=body)
    forged = replace(inner, physical_offset=offset)
    assert bench.code_of_end(forged, how) == ResponseCode.SYSTEM_ERROR
    assert (bench.stored("Denied"), bench.stored(OP)) == ([], [])


def test_a_parked_message_inside_a_body_cannot_be_revived(bench: TransactionBench) -> None:
    inner = Message(topic=PARKED, body=b"forged", properties={"REAL_TOPIC": "Denied"})
    body, offset = body_with_record(bench.store, inner)
    bench.send(body=body)
    answer = bench.ask_service(RESUME, {"msgId": f"0A00000100002A9F{offset:016X}"})
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert bench.stored(HALF) == []


def test_the_check_stays_before_an_entry_that_the_disk_has_lost(bench: TransactionBench) -> None:
    bench.send(
        body=b"not half of a transaction"
    )  # at the physical offset that a lost entry seems to name
    bench.half()
    bench.publish()
    bench.disk.open(f"/store/consumequeue/{HALF}/0/" + "0" * 20).pwrite(bytes(20), 0)
    assert bench.check() == []
    assert bench.progress()[0] in {None, 0}
    assert bench.stored(HALF) == []
    assert len(bench.stored("TopicTest", 0)) == 1
