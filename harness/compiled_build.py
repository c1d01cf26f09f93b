"""Compiles the simulation with mypyc into build/compiled: `make compiled`. `staticfire.harness.compiled` imports it.

The sources stay as they are, and are the reference. Only modules of `harness/simulation/` are compiled: no planted bug
and no mutant changes them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import staticfire
from staticfire.harness.compiled import BUILD, VARIABLE, checksum_of, python_tag

ROOT = Path(__file__).resolve().parents[1]
COMPILED = ("harness/simulation",)
# The bases of tasks and futures are written in C; the guard looks at frames, which compiled functions have not; and the
# session calls asyncio's constructor of transports, which writes where a compiled object has its table of methods.
LEFT_OUT = (
    "harness/simulation/network/tls_client.py",
    "harness/simulation/scheduling/tasks.py",
    "harness/simulation/hosts/guard.py",
    "harness/simulation/lint/",
)
_SETUP = """\
import sys
from mypyc.build import mypycify
from setuptools import setup

options = ["--namespace-packages", "--explicit-package-bases", "--python-version", "3.11"]
modules = mypycify([*options, *sys.stdin.read().split()], opt_level="2", debug_level="0")
arguments = ["-q", "build_ext", "--build-lib", "lib"]
setup(name="staticfire-compiled", packages=[], ext_modules=modules, script_args=arguments)
"""


class BuildError(Exception):
    """The modules cannot be compiled; the text says why."""


def sources() -> list[str]:
    """The modules to be compiled, by their paths in the package."""
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in COMPILED
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    return [path for path in found if not path.startswith(LEFT_OUT)]


def build(folder: Path) -> None:
    """Compile into `folder`, in place of what it held. Raises BuildError."""
    check_compiler()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    package = Path(staticfire.__file__).parent
    (folder / package.name).symlink_to(package)
    names = sources()
    _compile(folder, [f"{package.name}/{name}" for name in names])
    (folder / package.name).unlink()
    library = folder / "lib"
    suffix = f".{python_tag()}.so"
    files = [path.relative_to(library).as_posix() for path in sorted(library.rglob(f"*{suffix}"))]
    document = {
        "python": python_tag(),
        "root": str(ROOT),
        "sources": {name: checksum_of(ROOT / name) for name in names},
        "modules": {file.removesuffix(suffix).replace("/", "."): f"lib/{file}" for file in files},
    }
    (folder / BUILD).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def check_compiler() -> None:
    """Raises BuildError if there is no C compiler."""
    command = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command.split()[0]) is None:
        raise BuildError(
            f"the C compiler is {command.split()[0]!r}, which was not found; CC may name another one"
        )


def _compile(folder: Path, files: list[str]) -> None:
    """Run mypyc in a process of its own, in `folder`: it ends the process when it finds errors."""
    # Without our variable: the compiler has to see the sources.
    variables = {name: text for name, text in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", _SETUP],
        cwd=folder,
        env=variables,
        input=" ".join(files),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (folder / "build.log").write_text(done.stdout, encoding="utf-8")
    if done.returncode != 0:
        last = done.stdout.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise BuildError(f"mypyc failed: {last[0]}; all it said is in {folder / 'build.log'}")


def main() -> int:
    folder = ROOT / "build" / "compiled"
    try:
        build(folder)
    except BuildError as error:
        print(f"staticfire: {error}", file=sys.stderr)
        return 254
    print(f"compiled {len(sources())} modules; {VARIABLE}={folder.relative_to(ROOT)} uses them")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
