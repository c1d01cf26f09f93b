"""Calls on executors: the package that they get, and what ends one call or all of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

import staticfire
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.engine.scatter import Scatter, package_archive
from staticfire.spark_analysis.engine.session import explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


def test_the_archive_is_the_package_as_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted system comes before ours; files of data go along, byte code does not."""
    planted = tmp_path / "staticfire"
    (planted / "system_under_test").mkdir(parents=True)
    (planted / "system_under_test" / "__init__.py").write_text("# planted\n")
    monkeypatch.setattr(staticfire, "__path__", [str(planted), *staticfire.__path__])
    (planted / "__init__.py").write_text("")
    with ZipFile(package_archive(tmp_path)) as archive:
        names = archive.namelist()
        system = [name for name in names if name.startswith("staticfire/system_under_test/")]
        assert system == ["staticfire/system_under_test/__init__.py"]
        assert archive.read(system[0]) == b"# planted\n"
    assert "staticfire/__init__.py" in names
    assert "staticfire/harness/campaign/campaigns/default.toml" in names
    assert len(names) == len(set(names))
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: 3.11, "
            "PySpark cannot run with different minor versions.",
            "the executors have Python 3.10 and the driver has 3.11; --packed sends them one",
        ),
        (
            "Traceback\nModuleNotFoundError: No module named 'orjson'\n\n\tat org.apache",
            "the executors do not have the Python package orjson; --packed sends them what they lack",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/python": error=2, No such file',
            "the executors do not have /opt/python, which is the Python of the driver; --packed sends them one",
        ),
        (
            "None.org.apache.spark.sql.classic.SparkSession.\n"
            ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
            "it was stopped, as happens when the master does not answer",
        ),
    ],
)
def test_what_executors_lack_is_one_sentence(text: str, sentence: str) -> None:
    assert explain(RuntimeError(text)) == sentence


def answered(call: bytes) -> bytes:
    """On an executor."""
    if call == b"killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if call == b"raised":
        raise ValueError("no such call")
    return call[::-1]


def process_id(_call: bytes) -> bytes:
    """On an executor."""
    return str(os.getpid()).encode()


@pytest.mark.slow
@pytest.mark.needs_spark
def test_a_python_worker_is_used_again(spark: SparkSession, tmp_path: Path) -> None:
    scatter = Scatter(spark, package_archive(tmp_path), f"{__name__}:process_id")
    processes = {answer for _, answer in scatter.results([b""] * 12)}
    scatter.end()
    assert len(processes) <= 2


@pytest.mark.slow
@pytest.mark.needs_spark
def test_a_call_that_ends_its_executor_hides_no_other(spark: SparkSession, tmp_path: Path) -> None:
    scatter = Scatter(spark, package_archive(tmp_path), f"{__name__}:answered")
    calls = [b"one", b"killed", b"two", b"raised", b"three"]
    answers = dict(scatter.results(calls))
    scatter.end()
    assert sorted(answers) == [0, 1, 2, 3, 4]
    assert [answers[number] for number in (0, 2, 4)] == [b"eno", b"owt", b"eerht"]
    assert str(answers[1]) == "a Python worker died; was its memory too small?"
    assert isinstance(answers[3], SparkError)
    assert "ValueError: no such call" in str(answers[3])
