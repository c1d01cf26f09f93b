"""`staticfire admin`: bad input, dead nodes, malformed answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from staticfire.harness.cli import status_of
from staticfire.harness.cli.admin.commands import admin as admin_group
from staticfire.harness.cli.admin.times import parse_time_ms
from staticfire.harness.cli.status import BadInput
from staticfire.harness.local_cluster.ports import free_ports
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, RemotingServer
from staticfire.system_under_test.runtime.real_env import make_env
from tests.harness.cli.admin.conftest import Admin, consent, without_target
from tests.harness.cli.conftest import Said, Staticfire

COMMANDS = sorted(admin_group.commands)
EXPORTS = "/dev/null/exports"  # no folder can be made there

# Arguments with which each command asks at least one node.
ARGUMENTS = {
    "updateTopic": "-b {b} -t T",
    "updateTopicPerm": "-b {b} -t T",
    "deleteTopic": "-c C -t T",
    "topicRoute": "-t T",
    "topicStatus": "-t T",
    "topicClusterList": "-t T",
    "updateOrderConf": "-t T -m get",
    "allocateMQ": "-t T -i a",
    "statsAll": "-t T",
    "updateSubGroup": "-b {b} -g G",
    "deleteSubGroup": "-b {b} -g G",
    "getConsumerConfig": "-g G",
    "consumerProgress": "-g G",
    "consumerConnection": "-g G",
    "producerConnection": "-g G",
    "producer": "-b {b}",
    "consumerStatus": "-g G",
    "resetOffsetByTime": "-g G -t T -s now",
    "skipAccumulatedMessage": "-g G -t T",
    "cloneGroupOffset": "-s G -d H -t T",
    "queryCq": "-t T -q 0 -i 0 -b {b}",
    "queryMsgById": "-i {id}",
    "queryMsgByKey": "-t T -k K",
    "queryMsgByUniqueKey": "-t T -i I",
    "queryMsgByOffset": "-t T -b broker-a -i 0 -o 0",
    "queryMsgTraceById": "-i I",
    "messageTrack": "-i {id}",
    "printMsg": "-t T",
    "printMsgByQueue": "-t T -a broker-a -i 0",
    "consumeMessage": "-t T",
    "sendMessage": "-t T -p x",
    "checkMsgSendRT": "-t T -a 1",
    "sendMsgStatus": "-b broker-a -c 1",
    "clusterRT": "-c C -a 1",
    "exportConfigs": "-c C -f {f}",
    "exportMetadata": "-c C -f {f}",
    "exportMetrics": "-c C -f {f}",
    "brokerStatus": "-b {b}",
    "brokerConsumeStats": "-b {b}",
    "getBrokerConfig": "-b {b}",
    "updateBrokerConfig": "-b {b} -k k -v v",
    "liftCatchUp": "-b {b}",
    "updateNamesrvConfig": "-k k -v v",
    "updateKvConfig": "-s s -k k -v v",
    "getKvConfig": "-s s -k k",
    "deleteKvConfig": "-s s -k k",
    "wipeWritePerm": "-b broker-a",
    "addWritePerm": "-b broker-a",
    "updateAclConfig": "-b {b} -a somebody -s 12345678",
    "deleteAclConfig": "-b {b} -a somebody",
    "updateGlobalWhiteAddr": "-b {b} -g 10.0.0.*",
    "clusterAclConfigVersion": "-b {b}",
}


def arguments(command: str, port: int) -> list[str]:
    text = ARGUMENTS.get(command, "")
    message_id = f"7F000001{port:08X}{0:016X}"
    return [
        *text.format(b=f"127.0.0.1:{port}", id=message_id, f=EXPORTS).split(),
        *consent(command),
    ]


def says_one_sentence(said: Said, status: int) -> None:
    assert (said.status, said.out) == (status, "")
    assert said.err.startswith("staticfire: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err


# Bad input


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "bad",
    [
        ["-n", "nowhere"],
        ["-n", ""],
        ["-n", "a:0"],
        ["-n", "a:99999"],
        ["--timeout", "0"],
        ["--speed"],
    ],
)
def test_common_options(command: str, bad: list[str], staticfire: Staticfire) -> None:
    says_one_sentence(staticfire("admin", command, *arguments(command, 1), *bad), 254)


@pytest.mark.parametrize("command", [name for name in COMMANDS if ARGUMENTS.get(name)])
def test_missing_arguments(command: str, staticfire: Staticfire) -> None:
    given = staticfire("admin", command, *consent(command), "-n", "127.0.0.1:1", "--timeout", "0.1")
    if command in ("statsAll", "consumerProgress", "clusterRT"):  # they need none
        says_one_sentence(given, 255)
    else:
        says_one_sentence(given, 254)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("updateTopic -t T", "neither is given; allowed: either -b ADDRESS or -c CLUSTER"),
        ("updateTopic -t T -b a:1 -c C", "both are given"),
        ("updateTopic -t T -b a -c C", "address 'a' is not host:port"),
        ("updateTopic -t T -c C -r 0", "0 is not in the range"),
        ("updateTopic -t T -c C -p 7", "'7' is not one of"),
        ("updateTopic -t T -c C -o maybe", "'maybe' is not a valid boolean"),
        ("updateOrderConf -t T -m put", "put needs a value"),
        ("updateOrderConf -t T -m set", "'set' is not one of"),
        ("allocateMQ -t T -i ,", "members is ','"),
        ("resetOffsetByTime -g G -t T -s yesterday", "time is 'yesterday'; allowed: milliseconds"),
        ("queryMsgById -i 123", "message id is '123'; allowed: 32 or 56 hex digits"),
        ("queryMsgById -i {z}", "allowed: 32 or 56 hex digits"),
        ("queryMsgById -i {id} -g G", "only one of -g and -d is given"),
        ("printMsg -t T -b 5 -e 3", "the end '3' is before the begin '5'"),
        ("consumeMessage -t T -b broker-a", "only one of -b and -i"),
        ("consumeMessage -t T -o 3", "an offset needs its queue"),
        ("sendMessage -t T -p x -i 3", "only one of -b and -i"),
        ("exportMetadata -t", "neither is given"),
        ("exportMetadata -b a:1", "-b is given without -t and -g"),
        ("exportMetadata -c C -t -g", "both -t and -g are given"),
        ("queryCq -t T -q -1 -i 0", "-1 is not in the range"),
        ("updateBrokerConfig -b a:1 -k a=b -v c", "key is 'a=b'; allowed: the name of a property"),
        ("updateNamesrvConfig -k a -v c\\d", "allowed: text on one line"),
        ("clusterList --access-key a", "only one of --access-key and --secret-key is given"),
        ("printMsg -t T -c klingon", "allowed: one of Python's, such as UTF-8 or GBK"),
        ("clusterList --credentials /nowhere", "'/nowhere' cannot be used: No such file"),
        ("clusterList --credentials /nowhere --access-key a", "allowed: either"),
        ("clusterList --tls-config /nowhere", "cannot read the TLS settings in /nowhere"),
        ("topicRout -t T", "No such command 'topicRout'"),
    ],
)
def test_bad_values(line: str, words: str, staticfire: Staticfire) -> None:
    given = line.format(id="0" * 32, z="z" * 32).split()
    said = staticfire("admin", *given)
    says_one_sentence(said, 254)
    assert words in said.err


@pytest.mark.parametrize("value", ["", "\udcff", "x\0"])
def test_a_topic_that_is_no_text(value: str, staticfire: Staticfire) -> None:
    says_one_sentence(staticfire("admin", "topicRoute", "-t", value), 254)


@pytest.mark.parametrize(
    ("text", "time_ms"), [("0", 0), ("1700000000000", 1_700_000_000_000), ("-1", -1)]
)
def test_times(text: str, time_ms: int) -> None:
    assert parse_time_ms(text) == time_ms


def test_days_are_local_times() -> None:
    day, next_day = parse_time_ms("2026-01-31"), parse_time_ms("2026-02-01#00:00:00:000")
    assert next_day - day == 86_400_000
    assert parse_time_ms("2026-01-31#00:00:00:250") - day == 250
    for text in ("", "-2", "9" * 30, "2026-13-01", "0001-01-01 ", "١٢"):
        with pytest.raises(BadInput):
            parse_time_ms(text)


def test_every_command_has_help_with_an_example(staticfire: Staticfire) -> None:
    for command in COMMANDS:
        said = staticfire("admin", command, "--help")
        assert f"staticfire admin {command}" in said.out
        assert "Exit status: 0 " in said.out
        assert max(map(len, said.out.splitlines())) <= 100


def test_examples_parse(staticfire: Staticfire) -> None:
    import shlex

    for command in COMMANDS:
        out = staticfire("admin", command, "--help").out
        [example] = [
            line for line in out.splitlines() if line.startswith(f"    staticfire admin {command}")
        ]
        given = [*shlex.split(example)[1:], *consent(command), "-n", "127.0.0.1:1"]
        says_one_sentence(staticfire(*given, "--timeout", "0.2"), 255)


def test_the_case_of_a_command_does_not_matter(staticfire: Staticfire) -> None:
    assert staticfire("admin", "CLUSTERLIST", "--help").status == 0


@pytest.mark.parametrize("name", ["deleteAccessConfig", "DELETEACCESSCONFIG"])
def test_a_command_answers_to_the_second_name_that_mqadmin_has_for_it(
    name: str, staticfire: Staticfire
) -> None:
    said = staticfire("admin", name, "--help")
    assert said.status == 0
    assert "staticfire admin deleteAclConfig" in said.out


# Nodes that do not answer, or answer nonsense


@pytest.mark.real
@pytest.mark.parametrize("command", COMMANDS)
def test_a_port_without_a_listener(command: str, staticfire: Staticfire) -> None:
    [port] = free_ports(1)
    given = [*arguments(command, port), "-n", f"127.0.0.1:{port}", "--timeout", "1"]
    says_one_sentence(staticfire("admin", command, *given), 255)


class Impostor:
    """A node that answers every request in one way, or not at all."""

    def __init__(self, answer: Callable[[RemotingCommand], RemotingCommand | None]) -> None:
        self._answer = answer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def _handle(self, _: Connection, request: RemotingCommand) -> RemotingCommand | None:
        return self._answer(request)

    def start(self) -> int:
        self._thread.start()
        self._server = RemotingServer(make_env("impostor"), "127.0.0.1", 0, self._handle)
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(10)
        return self._server.port

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def garbage_port() -> Iterator[int]:
    def answer(request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(request, 0, None, {"offset": "x"}, b"\x00garbage")

    impostor = Impostor(answer)
    yield impostor.start()
    impostor.stop()


@pytest.fixture(scope="module")
def silent_port() -> Iterator[int]:
    impostor = Impostor(lambda _: None)
    yield impostor.start()
    impostor.stop()


@pytest.mark.real
@pytest.mark.parametrize("command", COMMANDS)
def test_garbage(command: str, garbage_port: int, staticfire: Staticfire) -> None:
    """Commands that only tell a node something do not look at the body of its answer."""
    given = [*arguments(command, garbage_port), "-n", f"127.0.0.1:{garbage_port}", "--timeout", "1"]
    said = staticfire("admin", command, *given)
    assert said.status in (0, 255)
    assert "Traceback" not in said.err
    if said.status == 255:
        says_one_sentence(Said(255, said.out, without_target(said.err)), 255)


@pytest.mark.real
@pytest.mark.parametrize("command", ["clusterList", "topicRoute", "sendMessage", "updateKvConfig"])
def test_silence(command: str, silent_port: int, staticfire: Staticfire) -> None:
    given = [*arguments(command, silent_port), "-n", f"127.0.0.1:{silent_port}", "--timeout", "0.1"]
    says_one_sentence(staticfire("admin", command, *given), 255)


@pytest.mark.real
def test_one_dead_name_server_is_no_hindrance_to_readers(
    admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    [dead] = free_ports(1)
    both = f"127.0.0.1:{dead};{admin.cluster.name_servers[0]}"
    assert status_of(["admin", "topicList", "-n", both]) == 0
    assert (
        status_of(["admin", "updateKvConfig", "-s", "s", "-k", "k", "-v", "v", "-n", both]) == 255
    )
    assert f"no answer from 127.0.0.1:{dead}" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topicRoute -t Nowhere", "17 TOPIC_NOT_EXIST"),
        ("printMsg -t Nowhere", "17 TOPIC_NOT_EXIST"),
        (
            "updateTopic -c Elsewhere -t T",
            "there is no cluster 'Elsewhere'; there are: DefaultCluster",
        ),
        (
            "queryMsgByOffset -t T -b broker-z -i 0 -o 0",
            "no master of 'broker-z'; there are: broker-a",
        ),
        ("updateTopicPerm -c DefaultCluster -t Nowhere -p 4", "has no topic 'Nowhere'"),
        ("updateTopic -c DefaultCluster -t a/b", "refused UPDATE_AND_CREATE_TOPIC (17) with code"),
    ],
)
def test_what_does_not_exist(line: str, words: str, admin: Admin) -> None:
    assert words in admin.refusal(*line.split())
