"""Builds our images: wheels of ours and of what we need, made here, installed there without a network."""

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
SAID_MAX = 2000  # characters of what a failed build said last

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ImageKind:
    """What an image is for.

    Attributes:
        tag: its name, unless another is asked for.
        extra: which of our extras it has.
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
    """Build the image `tag` on `base`, whose Python must be of this one's version.

    Raises EnvironmentFailed: no sources here, no wheels, or what the build says.
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
    """A copy of what a wheel is made of: setuptools would leave its traces in the checkout, and find old ones there."""
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
    except docker.errors.DockerException as error:  # also for a tag that is none
        reason = getattr(error, "explanation", None) or error
        raise EnvironmentFailed(f"{tag} was not built: {reason}") from error
