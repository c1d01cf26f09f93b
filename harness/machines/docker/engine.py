"""Connects to the Docker engine, and checks its images."""

from __future__ import annotations

import os
from collections.abc import Sequence

import docker.errors

from staticfire.harness.machines.docker.machine import Engine
from staticfire.harness.machines.errors import EnvironmentFailed

DEFAULT_HOST = "unix:///var/run/docker.sock"
ANSWER_S = 30.0  # for a command in an image


def connect() -> Engine:
    """Connect to the engine. Raises EnvironmentFailed."""
    try:
        return Engine()
    except docker.errors.DockerException as error:
        where = os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        raise EnvironmentFailed(
            f"no Docker engine answers at {where} ({innermost(error)}); "
            "start one, or set DOCKER_HOST to where it is"
        ) from error


def innermost(error: BaseException) -> str:
    """Return the error of the operating system, which the SDK wraps several times, as an argument or as the cause."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    for inner in (*error.args, error.__cause__, error.__context__):
        if isinstance(inner, BaseException) and inner is not error:
            return innermost(inner)
    return str(error)


def check_image(engine: Engine, image: str) -> None:
    """Raises EnvironmentFailed where the engine has no such image."""
    try:
        engine.client.images.get(image)
    except docker.errors.ImageNotFound as error:
        raise EnvironmentFailed(
            f"there is no image {image}; `staticfire docker-image` builds it"
        ) from error
    except docker.errors.APIError as error:
        raise EnvironmentFailed(
            f"--image is {image!r}, and the engine says: {error.explanation or error}"
        ) from error


def ask_image(image: str, argv: Sequence[str]) -> str:
    """Run a command in a temporary container of the image; return its stdout. Raises EnvironmentFailed."""
    engine = connect()
    try:
        check_image(engine, image)
        container = engine.client.containers.create(image, list(argv), network_mode="none")
        try:
            container.start()
            container.wait(timeout=ANSWER_S)
            return container.logs(stdout=True, stderr=False).decode(errors="replace")
        finally:
            container.remove(force=True)
    except docker.errors.APIError as error:
        reason = error.explanation or error
        raise EnvironmentFailed(f"the image {image} cannot be asked: {reason}") from error
    except OSError as error:  # raised by the library below the SDK
        raise EnvironmentFailed(
            f"the image {image} was asked what it has, and had not answered after {ANSWER_S:g} s"
        ) from error
    finally:
        engine.close()
