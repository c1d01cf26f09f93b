"""Compiled modules, and the processes that import them."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import staticfire
from staticfire.faults.defects import SYSTEM
from staticfire.harness import compiled, compiled_build, version
from staticfire.harness.compiled import BUILD, VARIABLE, BuildRefused, CompiledFinder, build_files
from staticfire.harness.compiled_build import (
    PARTS,
    ROOT,
    BuildError,
    check_compiler,
    main,
    sources,
)
from staticfire.harness.defect_loader import patched_system

CLOCK = "harness/simulation/scheduling/clock.py"
MODULE = "staticfire.harness.simulation.scheduling.clock"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with one source."""
    source = tmp_path / "staticfire" / CLOCK
    source.parent.mkdir(parents=True)
    source.write_text("NOW = 1\n")
    return tmp_path / "staticfire"


@pytest.fixture
def folder(package: Path, tmp_path: Path) -> Path:
    """A build of it."""
    folder = tmp_path / "build"
    folder.mkdir()
    document = {
        "python": compiled.python_tag(),
        "root": str(package),
        "parts": {
            "clocks": {
                "sources": {CLOCK: compiled.checksum_of(package / CLOCK)},
                "modules": {MODULE: "lib/clock.so"},
            },
            "nothing": {"sources": {}, "modules": {"other": "lib/other.so"}},
        },
    }
    (folder / BUILD).write_text(json.dumps(document))
    return folder


def copy_of(package: Path, text: str) -> Path:
    """A copy of the package's source, as of a planted bug."""
    copy = package.parent / "copy" / "staticfire"
    (copy / CLOCK).parent.mkdir(parents=True)
    (copy / CLOCK).write_text(text)
    return copy


def test_a_build_of_these_sources_is_used(package: Path, folder: Path) -> None:
    assert build_files(folder, [str(package)])["clocks"] == {MODULE: folder / "lib/clock.so"}


def test_a_changed_source_refuses_the_build(package: Path, folder: Path) -> None:
    (package / CLOCK).write_text("NOW = 2\n")
    with pytest.raises(BuildRefused, match=f"{CLOCK} has changed since; `make compiled` builds it"):
        build_files(folder, [str(package)])


def test_a_patched_copy_of_a_source_leaves_its_part_out(package: Path, folder: Path) -> None:
    copy = copy_of(package, "NOW = 2\n")
    assert list(build_files(folder, [str(copy), str(package)])) == ["nothing"]


def test_an_equal_copy_does_not(package: Path, folder: Path) -> None:
    copy = copy_of(package, "NOW = 1\n")
    assert "clocks" in build_files(folder, [str(copy), str(package)])


def test_a_copy_without_the_source_does_not(package: Path, folder: Path, tmp_path: Path) -> None:
    assert "clocks" in build_files(folder, [str(tmp_path / "other"), str(package)])


def test_a_build_for_another_python_is_refused(package: Path, folder: Path) -> None:
    document = json.loads((folder / BUILD).read_text()) | {"python": "cpython-39"}
    (folder / BUILD).write_text(json.dumps(document))
    with pytest.raises(BuildRefused, match=r"was built for cpython-39, this is cpython-3"):
        build_files(folder, [str(package)])


@pytest.mark.parametrize("text", [None, "", "{"])
def test_no_build(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / BUILD).write_text(text)
    with pytest.raises(BuildRefused, match="holds no build; `make compiled` makes build/compiled"):
        build_files(tmp_path, [])


def test_a_command_refuses_a_folder_without_a_build(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "staticfire", "--version"],
        env={**os.environ, VARIABLE: str(tmp_path)},
        capture_output=True,
        text=True,
    )
    wanted = "it holds no build; `make compiled` makes build/compiled"
    assert done.returncode == 254
    assert done.stderr == f"staticfire: {VARIABLE} is {str(tmp_path)!r}: {wanted}\n"


def test_the_finder_finds_compiled_modules_alone(tmp_path: Path) -> None:
    finder = CompiledFinder({"clocks": {MODULE: tmp_path / "clock.so"}})
    spec = finder.find_spec(MODULE, None)
    assert spec is not None
    assert spec.origin == str(tmp_path / "clock.so")
    assert finder.find_spec("staticfire.harness", None) is None


def test_the_version_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "compiled_parts", lambda: ["simulation", "system"])
    assert version.versions()["compiled"] == "simulation, system"
    assert version.version_line().endswith(", compiled: simulation, system")
    monkeypatch.setattr(version, "compiled_parts", list)
    assert "compiled" not in version.versions()
    assert "compiled" not in version.version_line()


def test_a_planted_bug_leaves_the_simulation_compiled() -> None:
    """Bugs and mutants are planted in a copy of the system, which comes first on the import path."""
    with patched_system(lambda _system, folder: (folder / SYSTEM).mkdir()) as (copy, _):
        planted = {path.name for path in (Path(copy) / "staticfire").iterdir() if path.is_dir()}
    assert planted == {SYSTEM}
    assert not [name for name in sources("simulation") if name.startswith(f"{SYSTEM}/")]
    assert all(name.startswith(f"{SYSTEM}/") for name in sources("system"))


def test_every_source_is_there_and_in_the_package() -> None:
    package = Path(staticfire.__file__).parent
    assert CLOCK in sources("simulation")
    assert "system_under_test/protocol/command.py" in sources("system")
    for part in compiled_build.PARTS:
        assert all((package / source).is_file() for source in sources(part))
        assert not [name for name in sources(part) if name.startswith(compiled_build.LEFT_OUT)]
    for left_out in compiled_build.LEFT_OUT:
        folder, _, beginning = left_out.rpartition("/")
        assert any(path.name.startswith(beginning) for path in (package / folder).iterdir())


def test_a_build_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-cc -O2")
    with pytest.raises(BuildError, match="the C compiler is 'no-such-cc', which was not found"):
        check_compiler()
    assert main() == 254
    assert capsys.readouterr().err.startswith("staticfire: the C compiler is 'no-such-cc'")


# mypyc 2.4.1 evaluates the bounds of a slice twice; these calls give the same again.
PURE = frozenset({"len", "max", "min", "bisect_left"})


def calls_in_slices(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Slice):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call) and ast.unparse(inner.func) not in PURE:
                    yield f"{path.name}:{inner.lineno}: {ast.unparse(inner)}"


def test_no_slice_of_a_compiled_module_calls_what_has_an_effect() -> None:
    paths = [ROOT / name for part in PARTS for name in sources(part)]
    assert [call for path in paths for call in calls_in_slices(path)] == []


def test_a_call_in_a_slice_is_seen(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("view = view[write(view) : len(view)]\n", encoding="utf-8")
    assert list(calls_in_slices(module)) == ["module.py:1: write(view)"]
