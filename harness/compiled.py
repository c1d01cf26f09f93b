"""Imports compiled modules in place of their sources, if `STATICFIRE_COMPILED` names the folder of a build.

`make compiled` makes that folder (`compiled_build.py`). Its `build.json` lists the compiled modules of each part with
checksums of their sources. The modules of a part call each other directly, so a part is used as a whole or not at all.
A build is refused if a source has changed since. A part is left out if a patched copy of one of its sources (a planted
bug) comes first on the import path.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

VARIABLE = "STATICFIRE_COMPILED"
BUILD = "build.json"
PACKAGE = "staticfire"


class BuildRefused(Exception):
    """The folder has no build that this process can use."""


class CompiledFinder(MetaPathFinder):
    """Finds modules of `parts`, by their dotted names."""

    def __init__(self, parts: dict[str, dict[str, Path]]) -> None:
        self.parts = parts
        self._files = {name: file for files in parts.values() for name, file in files.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._files.get(fullname)
        if file is None:
            return None
        loader = ExtensionFileLoader(fullname, str(file))
        return spec_from_file_location(fullname, file, loader=loader)


def use_build(folder: Path, package_path: Sequence[str]) -> None:
    """Let imports find the modules of the build in `folder`; if that is impossible, print why and end the process."""
    try:
        parts = build_files(folder, package_path)
    except BuildRefused as refusal:
        print(f"staticfire: {VARIABLE} is {str(folder)!r}: {refusal}", file=sys.stderr)
        raise SystemExit(254) from None
    os.environ[VARIABLE] = str(folder.resolve())  # for child processes in other folders
    if parts:
        sys.meta_path.insert(0, CompiledFinder(parts))
        # Coroutines in cycles are closed while the modules are whole: later, a compiled one crashes the process.
        atexit.register(gc.collect)


def compiled_parts() -> list[str]:
    """Return the parts of which this process imports compiled modules."""
    return [
        part
        for finder in sys.meta_path
        if isinstance(finder, CompiledFinder)
        for part in finder.parts
    ]


def build_files(folder: Path, package_path: Sequence[str]) -> dict[str, dict[str, Path]]:
    """Return the files of the build by part and module, without parts of which a patched source comes first.

    Raises:
        BuildRefused: there is no build, it is for another Python, or a source has changed since.
    """
    try:
        build = json.loads((folder / BUILD).read_text(encoding="utf-8"))
        parts = build["parts"]
    except (OSError, ValueError, KeyError):
        raise BuildRefused("it holds no build; `make compiled` makes build/compiled") from None
    if build["python"] != python_tag():
        raise BuildRefused(f"it was built for {build['python']}, this is {python_tag()}")
    return {
        name: {module: folder / file for module, file in part["modules"].items()}
        for name, part in parts.items()
        if _is_unpatched(part["sources"], Path(build["root"]), package_path)
    }


def _is_unpatched(sources: dict[str, str], root: Path, package_path: Sequence[str]) -> bool:
    for source, checksum in sources.items():
        found = next(path for folder in package_path if (path := Path(folder, source)).is_file())
        if checksum_of(found) != checksum:
            if found.samefile(Path(root, source)):
                raise BuildRefused(f"{source} has changed since; `make compiled` builds it anew")
            return False
    return True


def checksum_of(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()


def python_tag() -> str:
    """Return the tag in file names of extension modules, such as `cpython-311-x86_64-linux-gnu`."""
    return str(sysconfig.get_config_var("SOABI"))
