"""The log of a real node, read back with the run's clock."""

from __future__ import annotations

from pathlib import Path

from staticfire.harness.environments.real.node_log import last_error, read_log
from staticfire.harness.log_line import LogLine

LINES = (
    b'{"time_ms": 10500, "level": "info", "node": "broker-a-0", "event": "store opened", "end": 7}\n'
    b"Traceback (most recent call last):\n"
    b'{"time_ms": 11000, "level": "error", "node": "broker-a-0", "event": "node failed", "error": "OSError: gone"}\n'
    b'{"time_ms": "no'
)


def test_json_lines_get_the_runs_clock_and_other_text_that_of_the_line_before(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(LINES)
    assert read_log(log, start_wall_ms=10_000) == [
        LogLine(500_000_000, "info", "store opened", {"end": 7}),
        LogLine(500_000_000, "info", "text", {"text": "Traceback (most recent call last):"}),
        LogLine(1_000_000_000, "error", "node failed", {"error": "OSError: gone"}),
        LogLine(1_000_000_000, "info", "text", {"text": '{"time_ms": "no'}),
    ]


def test_the_last_failure_is_what_the_node_said_of_itself(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(LINES)
    assert last_error(log) == "OSError: gone"


def test_a_node_that_never_logged_has_no_lines_and_no_error(tmp_path: Path) -> None:
    assert read_log(tmp_path / "none", 0) == []
    assert last_error(tmp_path / "none") == ""


JAVA = (
    b"NOTE: Picked up JDK_JAVA_OPTIONS\n"
    b"2026-11-23T01:37:55.698Z INFO [main] RocketmqStore - load over, and the max phy offset = 0\n"
    b"2026-11-23T01:37:55.810+00:00 ERROR [FlushRealTimeService 1] RocketmqStore - Error occurred\n"
    b"java.io.IOException: Input/output error\n"
    b"\tat java.base/sun.nio.ch.FileChannelImpl.force(FileChannelImpl.java:468)\n"
    b"2026-11-23T01:37:55.823Z INFO [ShutdownHook] RocketmqBroker - Shutdown hook was invoked, 1\n"
    b"java.lang.IllegalStateException: group not set\n"
    b"2026-11-23T01:37:56.585Z INFO [ShutdownHook] RocketmqBroker - Shutdown hook over\n"
)
JAVA_STARTS_MS = 1_795_397_875_000  # 2026-11-23T01:37:55Z


def test_lines_of_java_have_their_own_time_and_level(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(JAVA)
    lines = read_log(log, JAVA_STARTS_MS)
    assert [(line.time_ns // 1_000_000, line.level) for line in lines] == [
        (0, "info"),
        (698, "info"),
        (810, "error"),
        (810, "error"),
        (810, "error"),
        (823, "info"),
        (823, "info"),
        (1585, "info"),
    ]
    assert lines[2].fields == {
        "text": "Error occurred",
        "thread": "FlushRealTimeService 1",
        "logger": "RocketmqStore",
    }


def test_the_failure_of_java_is_what_it_threw_before_it_shut_down(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(JAVA)
    assert last_error(log) == "java.io.IOException: Input/output error"


def test_the_error_of_a_client_stands_above_its_stack(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "client.js:67\n\nTypeError: no function\n    at send (client.js:67:5)\n\nNode.js v20.20.2\n"
    )
    assert last_error(log) == "TypeError: no function"
    log.write_text("java.io.IOException: gone\n\tat Client.main(Client.java:7)\n\t... 3 more\n")
    assert last_error(log) == "java.io.IOException: gone"
    log.write_text("client.js:67\nit is thrown\n    at send (client.js:67:5)\n\nNode.js v20.20.2\n")
    assert last_error(log) == "it is thrown"
    log.write_text("    indented\n")
    assert last_error(log) == "    indented"
