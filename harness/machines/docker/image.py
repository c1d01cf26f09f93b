"""Builds our images. It makes wheels of the project and its requirements here, and installs them without a network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import docker.errors

from staticfire import harness
from staticfire.harness.machines.docker.machine import Engine
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.options import IMAGE

PROJECT = Path(harness.__path__[0]).resolve().parent
FILES = ("pyproject.toml", "README.md")
PACKAGES = ("staticfire", "system_under_test", "faults", "checkers", "spark_analysis", "harness")
BASE = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
SAID_MAX = 2000  # characters of the end of a failed build's output

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ImageKind:
    """A kind of image.

    Attributes:
        tag: its default name.
        extra: the extra of our package that it has.
    """

    name: str
    tag: str
    extra: str

    @property
    def dockerfile(self) -> Path:
        return PROJECT / "docker" / f"{self.name}.Dockerfile"


NODE = ImageKind("node", IMAGE, "cpp-client")
SPARK = ImageKind("spark", "staticfire-spark:latest", "spark")


def build_image(engine: Engine, kind: ImageKind, tag: str, base: str, say: Say) -> None:
    """Build the image `tag` on `base`, whose Python must be of this interpreter's version.

    Raises EnvironmentFailed without sources or wheels, and if the build fails.
    """
    if not kind.dockerfile.exists():
        raise EnvironmentFailed(
            f"{kind.dockerfile} is not there: the image is built from a checkout of the project"
        )
    with tempfile.TemporaryDirectory(prefix="staticfire-image-") as folder:
        context = Path(folder)
        shutil.copy(kind.dockerfile, context / "Dockerfile")
        say("making wheels")
        _make_wheels(_sources(context / "sources"), kind.extra, context / "wheels")
        shutil.rmtree(context / "sources")
        say(f"building {tag} on {base}")
        _build(engine, context, tag, base)


def _sources(folder: Path) -> Path:
    """Copy the sources of a wheel: setuptools would leave files in the checkout, and find old ones there."""
    folder.mkdir()
    for name in FILES:
        shutil.copy(PROJECT / name, folder)
    for package in PACKAGES:
        if (PROJECT / package).is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT / package, folder / package, symlinks=True, ignore=skip)
    return folder


def _make_wheels(sources: Path, extra: str, folder: Path) -> None:
    constraints = ["--constraint", str(PROJECT / "constraints.txt")]
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    argv += [*constraints, "--wheel-dir", str(folder), f"{sources}[{extra}]"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentFailed(f"pip could not make the wheels: {done.stderr[-SAID_MAX:]}")


def _build(engine: Engine, context: Path, tag: str, base: str) -> None:
    try:
        engine.client.images.build(
            path=str(context), tag=tag, buildargs={"BASE": base}, rm=True, forcerm=True
        )
    except docker.errors.BuildError as error:
        said = "".join(
            str(line.get("stream", "")) for line in error.build_log if isinstance(line, dict)
        )
        raise EnvironmentFailed(f"{tag} was not built: {error}; {said[-SAID_MAX:]}") from error
    except docker.errors.DockerException as error:  # also for an invalid tag
        reason = getattr(error, "explanation", None) or error
        raise EnvironmentFailed(f"{tag} was not built: {reason}") from error
