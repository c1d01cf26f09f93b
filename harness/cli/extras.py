"""Libraries that only some commands need: each belongs to an extra of the package, and the base comes without them."""

from __future__ import annotations

from importlib.util import find_spec

from staticfire.harness.cli.status import BadInput

# The module that each extra brings and that its commands cannot do without.
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
    """Raises BadInput in one sentence if `what`, an option or a command, lacks the library of its extra."""
    module = MODULES[extra]
    if find_spec(module) is None:
        raise BadInput(
            f"{what} needs the Python package {module}, which is not installed; "
            f"pip install 'staticfire[{extra}]' adds it"
        )


def need_environment(environment: object) -> None:
    """The same for `--environment`. Raises BadInput."""
    if environment in ("docker", "ssh"):
        need_extra(str(environment), f"--environment {environment}")
