"""`staticfire docker-image`: the image that the nodes of the environment `docker` run in."""

from __future__ import annotations

import click

from harness.cli.status import BadInput, HarnessError


@click.command(name="docker-image", short_help="Build the image for --environment docker.")
@click.option(
    "--base",
    metavar="IMAGE",
    help="Image with python3 and venv, of this Python's version. Default: python:<version>-slim.",
)
@click.option("--tag", metavar="NAME", help="Name of the image. Default: staticfire-node:latest.")
def docker_image(base: str | None, tag: str | None) -> int:
    """Build the image of a node from this checkout, with wheels that are made here.

    \b
    Example:
      staticfire docker-image
      staticfire docker-image --base my-debian:bookworm

    `staticfire run --environment docker --image NAME` uses another one.

    Exit status: 0 built, 254 bad arguments, 255 it could not be built.
    """
    from harness.environments.docker_engine import connect
    from harness.environments.docker_image import BASE, build_image
    from harness.environments.errors import EnvironmentFailed
    from harness.environments.fleet_options import IMAGE, FleetOptionError, check_image

    name = tag or IMAGE
    try:
        for option, image in (("--tag", name), ("--base", base or BASE)):
            check_image(option, image)
    except FleetOptionError as error:
        raise BadInput(str(error)) from error
    try:
        engine = connect()
        try:
            build_image(
                engine, name, base or BASE, lambda text: click.echo(f"{text} ...", err=True)
            )
        finally:
            engine.close()
    except EnvironmentFailed as error:
        raise HarnessError(str(error)) from error
    print(f"built {name}")
    return 0
