"""`staticfire look`: shows a node of a simulated run at a virtual time."""

from __future__ import annotations

import re
from pathlib import Path

import click
import orjson

from staticfire.harness.cli.completion import complete_node, complete_part, complete_run
from staticfire.harness.cli.explain.command import repeatable
from staticfire.harness.cli.options import system_option
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import EXIT_VALID, BadInput, HarnessError
from staticfire.harness.run_folder.run_folder import RunFolder
from staticfire.harness.systems.errors import RunError
from staticfire.harness.truncated_repr import printable, printable_json, truncated_repr

TIME = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s?")


@click.command(short_help="Show a node of a simulated run at a virtual time.")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option("--at", required=True, metavar="TIME", help="Virtual seconds, such as 16.5s.")
@click.option(
    "--node",
    required=True,
    metavar="NAME",
    shell_complete=complete_node,
    help="A server or client, such as broker-a-0.",
)
@click.option(
    "--what",
    metavar="PART",
    shell_complete=complete_part,
    help="Part of the node; RocketMQ: store, queues, offsets, routes, files. Default: everything but the files.",
)
@click.option("--json", "is_json", is_flag=True, help="Print everything as JSON.")
@system_option(expose=False)
def look(run: Path, at: str, node: str, what: str | None, is_json: bool) -> int:
    """Repeat the simulated run in folder RUN up to a virtual time, and show the state of a node then.

    For a broker: begin, end and flushed end of its log, its queues, and the offsets of groups. For a name server: its
    routes. For every node: the files on its disk, and whether they would survive a power cut.

    \b
    Example:
      staticfire look runs/20261120-101500-queue-1 --at 16.5s --node broker-a-0
      staticfire look runs/20261120-101500-queue-1 --at 16.5s --node ns-1 --what routes --json

    Exit status: 0 shown, 254 bad arguments, 255 harness error.
    """
    at_ns = time_ns(at)
    campaign = repeatable(RunFolder(run))
    topology = campaign.topology()
    nodes = [*topology.servers, *topology.clients]
    if node not in nodes:
        raise BadInput(f"--node is {truncated_repr(node)}; allowed: {', '.join(nodes)}")

    from staticfire.harness.explain.look import EndedBefore, NothingThere, look_at, parts_of

    parts = parts_of(campaign)
    if what not in (None, *parts):
        raise BadInput(f"--what is {truncated_repr(what)}; allowed: {', '.join(parts)}")
    try:
        with working("repeating"):
            seen = look_at(campaign, at_ns, node)
        lines = seen.lines(what)
    except EndedBefore as error:
        raise BadInput(f"--at is {at}; allowed: up to {error}, when the run ends") from error
    except NothingThere as error:
        raise BadInput(str(error)) from error
    except RunError as error:
        raise HarnessError(str(error)) from error
    if is_json:
        print(printable_json(orjson.dumps(seen.only(what), option=orjson.OPT_INDENT_2)))
    else:
        print("\n".join(map(printable, lines)))
    return EXIT_VALID


def time_ns(text: str) -> int:
    """Parse virtual seconds; return nanoseconds. Raises BadInput."""
    match = TIME.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"--at is {truncated_repr(text)}; allowed: virtual seconds, such as 16.5s")
    whole, _, rest = match[1].partition(".")
    return int(whole) * 1_000_000_000 + int(rest.ljust(9, "0") if rest else 0)
