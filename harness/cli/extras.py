"""Libraries that only some commands need. Each belongs to an extra of the package."""

from __future__ import annotations

from importlib.util import find_spec

from staticfire.harness.cli.status import BadInput

# The module of each extra that its commands need.
MODULES = {
    "docker": "docker",
    "ssh": "paramiko",
    "tls": "cryptography",
    "spark": "pyspark",
    "cpp-client": "rocketmq",
    "perfetto": "perfetto",
    "serve": "uvicorn",
}


def need_extra(extra: str, what: str) -> None:
    """Raises BadInput if the library that `what`, an option or a command, needs is not installed."""
    module = MODULES[extra]
    if find_spec(module) is None:
        raise BadInput(
            f"{what} needs the Python package {module}, which is not installed; "
            f"pip install 'staticfire[{extra}]' adds it"
        )


def need_environment(environment: object) -> None:
    """Do the same for `--environment`. Raises BadInput."""
    if environment in ("docker", "ssh"):
        need_extra(str(environment), f"--environment {environment}")
