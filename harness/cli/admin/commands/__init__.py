"""`staticfire admin` and its commands, one module an area."""

from __future__ import annotations

import click

from staticfire.harness.cli.admin.command import AdminGroup
from staticfire.harness.cli.admin.commands import (
    access,
    brokers,
    exports,
    groups,
    members,
    messages,
    monitoring,
    name_servers,
    offsets,
    queues,
    reading,
    sending,
    topic_shares,
    topics,
    traces,
)


@click.group(cls=AdminGroup, short_help="Administer a cluster with the commands of mqadmin.")
def admin() -> None:
    """Administer a RocketMQ cluster, ours or Apache's, with the commands of mqadmin.

    -n or NAMESRV_ADDR gives the name servers. Every command prints a table, or JSON with --json. A command that changes
    the cluster names it first; a command that deletes or overwrites something asks, or needs --yes.

    \b
    Example:
      staticfire admin clusterList -n 127.0.0.1:9876
      staticfire admin updateTopic -n 127.0.0.1:9876 -c DefaultCluster -t Orders
      staticfire admin consumerProgress -n 127.0.0.1:9876 -g billing --json

    Exit status: 0 done, 254 bad arguments, 255 the cluster refused or did not answer.
    """


MODULES = (
    topics,
    topic_shares,
    groups,
    members,
    offsets,
    queues,
    messages,
    traces,
    reading,
    sending,
    brokers,
    exports,
    monitoring,
    name_servers,
    access,
)
for module in MODULES:
    for command in module.COMMANDS:
        admin.add_command(command)
