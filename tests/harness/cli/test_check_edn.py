"""`staticfire check history.edn`: a history of Jepsen, with its facts as options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cli.conftest import Staticfire
from tests.support.jepsen_cases import CASES, edn_of

STATUS = {True: 0, False: 1, "unknown": 2}


@pytest.mark.parametrize(
    "name",
    ["acknowledged, and polled late", "lost: polls got further", "an empty history"],
)
def test_the_status_is_that_of_the_verdict(
    name: str, tmp_path: Path, staticfire: Staticfire
) -> None:
    history = tmp_path / "history.edn"
    history.write_text(edn_of(CASES[name]["ops"]))
    said = staticfire(
        "check", history, "--flush", "sync", "--replication", "sync", "--groups", "jepsen"
    )
    assert said.status == STATUS[CASES[name]["valid"]]
    assert all(anomaly.upper() in said.out for anomaly in CASES[name]["ours"])


def test_a_torn_history_is_not_valid(tmp_path: Path, staticfire: Staticfire) -> None:
    history = tmp_path / "history.edn"
    history.write_text(edn_of(CASES["acknowledged, and polled late"]["ops"]) + "{:type :ok, ")
    assert staticfire("check", history).status == 2


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("{:type :ok, :f :send, :value 7, :process 0, :time 1}", (), ("line 1", "7 is no vector")),
        ("{:type", ("--flush", "often"), ("'often'", "'sync'", "'async'")),
        ("", ("--groups", "mine"), ("'mine'", "jepsen-assigned")),
        (None, (), ("history.edn", "No such file")),
    ],
)
def test_bad_input_is_a_sentence(
    content: str | None,
    options: tuple[str, ...],
    words: tuple[str, ...],
    tmp_path: Path,
    staticfire: Staticfire,
) -> None:
    history = tmp_path / "history.edn"
    if content is not None:
        history.write_text(content)
    said = staticfire("check", history, *options)
    assert (said.status, said.err.count("\n")) == (254, 1)
    assert all(word in said.err for word in words)


def test_a_run_says_itself_what_it_promised(tmp_path: Path, staticfire: Staticfire) -> None:
    said = staticfire("check", tmp_path, "--flush", "async")
    assert said.status == 254
    assert "--flush is for .edn histories" in said.err
