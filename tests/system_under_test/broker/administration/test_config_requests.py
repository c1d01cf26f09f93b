"""Options of a running broker: codes 25 and 26."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.system_under_test.configuration.config import BROKER_PROPERTIES
from staticfire.system_under_test.configuration.java_properties import parse_properties
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.system_under_test.broker.bench import Bench

FILE = "/etc/broker.properties"
DATA = Path(__file__).parents[3] / "data"


def update(bench: Bench, text: str) -> RemotingCommand:
    return bench.request(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


def options(bench: Bench) -> dict[str, str]:
    return parse_properties(bench.request(RequestCode.GET_BROKER_CONFIG).body.decode())


def version(bench: Bench) -> int:
    ext = bench.request(RequestCode.GET_BROKER_CONFIG).ext_fields
    counter: int = json_dialect.loads(ext["version"])["counter"]
    return counter


def read(bench: Bench, path: str) -> str:
    file = bench.disk.open(path)
    return file.pread(file.size(), 0).decode()


def test_options_are_reported_under_their_java_names(bench: Bench) -> None:
    found = options(bench)
    assert found["brokerName"] == "broker-a"
    assert found["flushDiskType"] == "ASYNC_FLUSH"
    assert found["brokerRole"] == "ASYNC_MASTER"
    assert found["longPollingEnable"] == "true"
    assert found["syncFlushTimeout"] == "5000"


def test_reported_options_are_read_back_unchanged(bench: Bench) -> None:
    reported = options(bench)
    for name in BROKER_PROPERTIES.keys() & reported.keys():
        known, text = BROKER_PROPERTIES[name], reported[name]
        assert known.parse(text) == getattr(bench.config, known.field), name


def test_an_option_is_reported_as_it_was_written() -> None:
    bench = Bench()
    assert options(bench)["messageDelayLevel"].startswith("1s 5s 10s 30s 1m 2m")
    assert options(bench)["deleteWhen"] == "04"
    assert update(bench, "messageDelayLevel=60s 2m 1d\ndeleteWhen=4;16").code == 0
    assert options(bench)["messageDelayLevel"] == "60s 2m 1d"
    assert options(bench)["deleteWhen"] == "04;16"


def test_every_key_of_rocketmqs_broker_is_reported() -> None:
    """As 4.9.8 tells them, but rocketmqHome, the folder of its distribution, which no broker here has."""
    keys = (DATA / "broker-config-keys.txt").read_text().split()
    bench = Bench(name_servers=("127.0.0.1:9876",))
    reported = options(bench)
    assert set(keys) - set(reported) == {"rocketmqHome"}
    assert (reported["brokerIP2"], reported["haListenPort"]) == (
        bench.config.listen_host,
        str(bench.config.ha_port),
    )
    assert reported["bitMapLengthConsumeQueueExt"] == "112"
    assert (reported["useTLS"], reported["filterServerNums"], reported["messageStorePlugIn"]) == (
        "false",
        "0",
        "",
    )
    assert reported["configBlackList"] == "configBlackList;brokerConfigPath"


def test_an_idle_option_keeps_its_default_whatever_it_is_set_to() -> None:
    bench = Bench(config_file=FILE)
    assert update(bench, "sendMessageThreadPoolNums=16\ntraceOn=false").code == 0
    assert options(bench)["sendMessageThreadPoolNums"] == "1"
    assert options(bench)["traceOn"] == "false"
    assert "sendMessageThreadPoolNums" not in parse_properties(read(bench, FILE))


def test_an_option_changes_at_once(bench: Bench) -> None:
    before = version(bench)
    assert update(bench, "shortPollingTimeMills=250\nlongPollingEnable=false\n").code == 0
    assert (bench.config.short_polling_s, bench.config.long_polling) == (0.25, False)
    assert options(bench)["shortPollingTimeMills"] == "250"
    assert version(bench) == before + 1


def test_refused_groups_are_no_longer_made_at_once(bench: Bench) -> None:
    update(bench, "autoCreateSubscriptionGroup=false")
    bench.send()
    answer = bench.pull()
    assert answer is not None
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_changed_permission_is_registered(bench: Bench) -> None:
    update(bench, "traceOn=false")
    assert bench.topic_changes == 0
    update(bench, "brokerPermission=4")
    assert bench.topic_changes == 1
    assert bench.config.broker_permission == 4


def test_identity_and_files_wait_for_the_next_start(bench: Bench) -> None:
    assert update(bench, "flushDiskType=SYNC_FLUSH\nbrokerName=other").code == 0
    assert (bench.config.sync_flush, bench.config.broker_name) == (False, "broker-a")
    assert options(bench)["flushDiskType"] == "SYNC_FLUSH"


@pytest.mark.parametrize(
    "name",
    [
        "brokerConfigPath",
        "configBlackList",
        "rocketmqHome",
        "aclCredentialsFile",
        "aclEnable",
        "aclFullSignature",
        "faithfulPolicies",
        "haAllowedAddresses",
        "mode",
        "readOnlyCommitLogStorePaths",
        "storePathCommitLog",
        "storePathRootDir",
    ],
)
def test_black_list(bench: Bench, name: str) -> None:
    answer = update(bench, f"longPollingEnable=false\n{name}=/tmp/x")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "Can not update config in black list."
    assert bench.config.long_polling


def test_unknown_options_and_no_options_are_no_error(bench: Bench) -> None:
    assert update(bench, "noSuchOption=5").code == 0
    assert update(bench, "").code == 0


@pytest.mark.parametrize("mode", list(Mode))
def test_a_bad_value(mode: Mode) -> None:
    bench = Bench(mode=mode)
    answer = update(bench, "longPollingEnable=perhaps\nshortPollingTimeMills=9\n")
    if mode is Mode.HARDENED:
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "longPollingEnable is 'perhaps', but true and false are allowed"
        assert bench.config.short_polling_s == 1.0
    else:
        assert answer.code == 0
        assert bench.config.short_polling_s == 0.009
    assert bench.config.long_polling


def test_bytes_that_are_no_text(bench: Bench) -> None:
    answer = bench.request(RequestCode.UPDATE_BROKER_CONFIG, body=b"a=\xff")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "not UTF-8" in (answer.remark or "")


def test_the_file_is_rewritten_durably() -> None:
    bench = Bench(config_file=FILE)
    update(bench, "regionId=a\\\\b\nbrokerName=renamed")
    bench.disk.power_cut()
    bench.disk.power_on()
    found = parse_properties(read(bench, FILE))
    assert (found["regionId"], found["brokerName"]) == ("a\\b", "renamed")


def test_without_a_file_nothing_is_written(bench: Bench) -> None:
    update(bench, "traceOn=false")
    assert not bench.disk.exists(FILE)


def test_a_broker_without_a_file_of_its_own_writes_what_was_changed() -> None:
    bench = Bench(changes_file="/store/changed.properties")
    update(bench, "traceOn=false\nnoSuchOption=1\nrocketmq.acl.plain.file=/x")
    update(bench, "brokerName=renamed\ntraceOn=true\nregionId=there")
    bench.disk.power_cut()
    bench.disk.power_on()
    found = parse_properties(read(bench, "/store/changed.properties"))
    assert found == {"traceOn": "true", "brokerName": "renamed", "regionId": "there"}


def test_names_that_mean_nothing_here_stay_in_the_file() -> None:
    bench = Bench(config_file=FILE)
    bench.disk.makedirs("/etc")
    file = bench.disk.open(FILE, create=True)
    text = b"# comment\nsendMessageThreadPoolNums=16\ntraceOn=true\n"
    file.pwrite(text, 0)
    update(bench, "traceOn=false")
    found = parse_properties(read(bench, FILE))
    assert (found["sendMessageThreadPoolNums"], found["traceOn"]) == ("16", "false")


@pytest.mark.parametrize("mode", list(Mode))
def test_what_the_next_start_would_refuse(mode: Mode) -> None:
    bench = Bench(mode=mode)
    answer = update(bench, "brokerRole=SLAVE\ntraceOn=false")
    if mode is Mode.HARDENED:
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "a slave needs an id above 0" in (answer.remark or "")
        assert options(bench)["traceOn"] == "true"
    else:
        assert answer.code == 0


def test_answers_to_sends_change_at_once(bench: Bench) -> None:
    """Region and trace switch are in the answer, and sends may be stopped until a time."""
    bench.administration.live_config.on_change.append(bench.send_processor.options_changed)
    update(bench, "regionId=there\ntraceOn=false")
    for answer in (bench.send(queue_id=99), bench.send()):
        assert (answer.ext_fields["MSG_REGION"], answer.ext_fields["TRACE_ON"]) == (
            "there",
            "false",
        )
    update(bench, f"startAcceptSendRequestTimeStamp={bench.clock.now_ms + 1000}")
    assert "broker unable to service" in (bench.send().remark or "")
    bench.clock.move(1)
    assert bench.send().code == 0


def test_topics_are_no_longer_made_at_once(bench: Bench) -> None:
    bench.send("first")
    update(bench, "autoCreateTopicEnable=false")
    answer = bench.send("second")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert bench.topics.get("first") is not None


def test_a_longer_black_list() -> None:
    bench = Bench(black_list=("traceOn",))
    assert update(bench, "traceOn=false").code == ResponseCode.NO_PERMISSION
    assert update(bench, "brokerConfigPath=/tmp/x").code == ResponseCode.NO_PERMISSION
    assert update(bench, "regionId=there").code == 0
