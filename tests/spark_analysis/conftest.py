"""One Spark session for all tests of a process: it takes seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from staticfire.spark_analysis.engine.session import Settings, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """On two cores of this machine."""
    before = dict(os.environ)
    with spark_session(Settings(master="local[2]", driver_memory_mb=512)) as session:
        yield session
    os.environ.clear()
    os.environ.update(before)
