"""Compiles hot modules with mypyc into build/compiled: `make compiled`. `staticfire.harness.compiled` imports them.

The sources do not change and remain the reference. There are two parts: the simulation, which no planted bug and no
mutant changes, and the broker's code for sends and pulls. Compiled modules call modules of their own part directly, and
all others through Python. So a patched copy of the system disables only its own part.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import staticfire
from staticfire.harness.compiled import BUILD, VARIABLE, checksum_of, python_tag

ROOT = Path(__file__).resolve().parents[1]
# The folders and modules of each part.
PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "simulation": ("harness/simulation",),
        "system": (
            "system_under_test/broker/append_pipeline",
            "system_under_test/broker/flow_control",
            "system_under_test/broker/pulling",
            "system_under_test/broker/sending",
            "system_under_test/broker/statistics",
            "system_under_test/protocol",
            "system_under_test/remoting",
            "system_under_test/store",
        ),
    }
)
LEFT_OUT = (
    # tls_session: asyncio's constructor of transports would overwrite a compiled object's method table. tasks: their
    # base classes are written in C. guard: compiled functions have no frames, which it inspects.
    "harness/simulation/network/tls_session.py",
    "harness/simulation/scheduling/tasks.py",
    "harness/simulation/hosts/guard.py",
    "harness/simulation/lint/",
    # A compiled class cannot have a built-in exception such as OSError as its base.
    "system_under_test/remoting/errors.py",
    "system_under_test/store/delay_levels.py",
    # Their annotations are read at run time, and compiled classes do not keep all of them.
    "system_under_test/protocol/bodies",
    "system_under_test/protocol/header",
    "system_under_test/protocol/json_body.py",
)
_SETUP = """\
import sys
from mypyc.build import mypycify
from setuptools import setup

options = ["--namespace-packages", "--explicit-package-bases", "--python-version", "3.11"]
files = sys.stdin.read().split()
modules = mypycify([*options, *files], opt_level="2", debug_level="0", group_name=sys.argv[1], multi_file=True)
arguments = ["-q", "build_ext", "--build-lib", "lib"]
setup(name="staticfire-compiled", packages=[], ext_modules=modules, script_args=arguments)
"""


class BuildError(Exception):
    """The modules cannot be compiled; the text gives the reason."""


def sources(part: str) -> list[str]:
    """Return the modules of a part, by their paths in the package."""
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in PARTS[part]
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    return [path for path in found if not path.startswith(LEFT_OUT)]


def build(folder: Path) -> None:
    """Compile into `folder`, replacing its contents. Raises BuildError."""
    check_compiler()
    shutil.rmtree(folder, ignore_errors=True)
    parts = {}
    for part in PARTS:
        names = sources(part)
        print(f"compiling {len(names)} modules: {part}", flush=True)
        parts[part] = {
            "sources": {name: checksum_of(ROOT / name) for name in names},
            "modules": _compile(folder, part, names),
        }
    document = {"python": python_tag(), "root": str(ROOT), "parts": parts}
    (folder / BUILD).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def check_compiler() -> None:
    """Raises BuildError if there is no C compiler."""
    command = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command.split()[0]) is None:
        raise BuildError(
            f"the C compiler is {command.split()[0]!r}, which was not found; CC may name another one"
        )


def _compile(folder: Path, part: str, names: list[str]) -> dict[str, str]:
    """Return the files made in `folder`, by module. mypyc runs in its own process, since its errors end the process."""
    work = folder / part
    work.mkdir(parents=True)
    package = Path(staticfire.__file__).parent
    (work / package.name).symlink_to(package)
    # Without VARIABLE, so that the compiler imports the sources.
    variables = {name: text for name, text in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", _SETUP, part],
        cwd=work,
        env=variables,
        input=" ".join(f"{package.name}/{name}" for name in names),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (work / "build.log").write_text(done.stdout, encoding="utf-8")
    if done.returncode != 0:
        last = done.stdout.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise BuildError(f"mypyc failed: {last[0]}; all it said is in {work / 'build.log'}")
    (work / package.name).unlink()
    library = work / "lib"
    suffix = f".{python_tag()}.so"
    files = sorted(path.relative_to(library) for path in library.rglob(f"*{suffix}"))
    return {
        file.as_posix().removesuffix(suffix).replace("/", "."): f"{part}/lib/{file.as_posix()}"
        for file in files
    }


def main() -> int:
    folder = ROOT / "build" / "compiled"
    try:
        build(folder)
    except BuildError as error:
        print(f"staticfire: {error}", file=sys.stderr)
        return 254
    print(f"{VARIABLE}={folder.relative_to(ROOT)} uses them")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
