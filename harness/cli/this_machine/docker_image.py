"""`staticfire docker-image`: builds the image of nodes for the environment `docker`, or that of Spark."""

from __future__ import annotations

import click

from staticfire.harness.cli.extras import need_extra
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import BadInput, HarnessError, turn_errors
from staticfire.harness.machines.errors import EnvironmentFailed


@click.command(
    name="docker-image", short_help="Build the image for --environment docker, or for Spark."
)
@click.option(
    "--base",
    metavar="IMAGE",
    help="Base image with python3 (the version that runs this command) and venv. Default: python:<version>-slim.",
)
@click.option(
    "--tag",
    metavar="NAME",
    help="Name of the image. Default: staticfire-node:latest or staticfire-spark:latest.",
)
@click.option(
    "--spark",
    is_flag=True,
    help="Build the image for `staticfire analyze` and for a Spark cluster.",
)
def docker_image(base: str | None, tag: str | None, spark: bool) -> int:
    """Build a node image from this checkout, with wheels built on this machine.

    \b
    Example:
      staticfire docker-image
      staticfire docker-image --base my-debian:bookworm
      staticfire docker-image --spark

    `staticfire run --environment docker --image NAME` uses another one.

    Exit status: 0 built, 254 bad arguments, 255 it could not be built.
    """
    need_extra("docker", "docker-image")
    from staticfire.harness.machines.docker.engine import connect
    from staticfire.harness.machines.docker.image import BASE, NODE, SPARK, build_image
    from staticfire.harness.machines.options import MachineOptionError, check_image

    kind = SPARK if spark else NODE
    name = tag or kind.tag
    with turn_errors(MachineOptionError, into=BadInput):
        for option, image in (("--tag", name), ("--base", base or BASE)):
            check_image(option, image)
    with turn_errors(EnvironmentFailed, into=HarnessError):
        engine = connect()
        try:
            with working("building") as progress:

                def say(text: str) -> None:
                    with progress.aside():
                        click.echo(f"{text} ...", err=True)
                    progress.update(details=text)

                build_image(engine, kind, name, base or BASE, say)
        finally:
            engine.close()
    print(f"built {name}")
    return 0
