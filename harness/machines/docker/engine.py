"""Where the Docker engine is, and why it does not answer."""

from __future__ import annotations

import os

import docker.errors

from staticfire.harness.machines.docker.machine import Engine
from staticfire.harness.machines.errors import EnvironmentFailed

DEFAULT_HOST = "unix:///var/run/docker.sock"


def connect() -> Engine:
    """Raises EnvironmentFailed."""
    try:
        return Engine()
    except docker.errors.DockerException as error:
        where = os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        raise EnvironmentFailed(
            f"no Docker engine answers at {where} ({innermost(error)}); "
            "start one, or set DOCKER_HOST to where it is"
        ) from error


def innermost(error: BaseException) -> str:
    """What the operating system said: the SDK wraps it several times, as an argument or as the cause."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    for inner in (*error.args, error.__cause__, error.__context__):
        if isinstance(inner, BaseException) and inner is not error:
            return innermost(inner)
    return str(error)
