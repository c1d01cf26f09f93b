"""`--client cpp` without its library: refused, with the package to install."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib import metadata

import pytest

from staticfire.harness.machines import cpp_library
from staticfire.harness.machines.errors import EnvironmentFailed

IS_INSTALLED = importlib.util.find_spec("rocketmq") is not None


def without_package(_name: str) -> str:
    raise metadata.PackageNotFoundError


def test_a_machine_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", without_package)
    with pytest.raises(EnvironmentFailed, match=r"needs .* rocketmq 0\.4\.4.* not installed.*pip"):
        cpp_library.check_here()


def test_a_machine_with_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _name: "2.0.0")
    with pytest.raises(EnvironmentFailed, match=r"\(it is 2\.0\.0\)"):
        cpp_library.check_here()


@pytest.mark.skipif(not IS_INSTALLED, reason="needs the extra cpp-client")
def test_the_check_of_other_machines_is_true_of_this_one() -> None:
    subprocess.run([sys.executable, "-c", cpp_library.CHECK], check=True)


def test_the_check_of_other_machines_says_what_lacks() -> None:
    argv = [sys.executable, "-S", "-c", cpp_library.CHECK]  # as if nothing were installed
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "rocketmq" in done.stderr.strip().rpartition("\n")[2]
