"""`staticfire admin`: accounts of brokers with access control."""

from __future__ import annotations

import click

from staticfire.harness.cli.admin.acting import Effect
from staticfire.harness.cli.admin.answers import Answer, Table, time_text
from staticfire.harness.cli.admin.command import (
    BROKER,
    admin_command,
    check_target,
    done,
    one_target,
    text_option,
)
from staticfire.system_under_test.admin import AdminClient, access

CLUSTER = text_option("-c", "--clusterName", "cluster", "All brokers of this cluster.")
ACCESS_KEY = text_option("-a", "--accessKey", "account", "Key of the account.", required=True)


async def _brokers(admin: AdminClient, broker: str | None, cluster: str | None) -> list[str]:
    """Return the broker, or all brokers of the cluster: slaves have their own accounts. Raises BadInput, AdminError."""
    one_target(broker, cluster)
    if broker is not None:
        return [broker]
    return [
        address
        for data in await admin.brokers(cluster)
        for _, address in sorted(data.broker_addrs.items())
    ]


@admin_command(
    "updateAclConfig",
    "Create or change an account.",
    "-c DefaultCluster -a billing-app -s 12345678 -t Orders=SUB",
    BROKER,
    CLUSTER,
    ACCESS_KEY,
    text_option("-s", "--secretKey", "secretKey", "Secret of the account.", required=True),
    text_option(
        "-w",
        "--whiteRemoteAddress",
        "whiteRemoteAddress",
        "Address that may use the account without a key.",
    ),
    text_option(
        "-i",
        "--defaultTopicPerm",
        "defaultTopicPerm",
        "Permission for other topics: DENY, PUB, SUB or PUB|SUB.",
    ),
    text_option(
        "-u", "--defaultGroupPerm", "defaultGroupPerm", "Permission for other groups: DENY or SUB."
    ),
    text_option(
        "-t", "--topicPerms", "topicPerms", "Permissions by topic, such as A=DENY,B=PUB|SUB."
    ),
    text_option("-g", "--groupPerms", "groupPerms", "Permissions by group, such as a=DENY,b=SUB."),
    click.option(
        "-m",
        "--admin",
        "is_admin",
        type=click.BOOL,
        help="Whether the account may send administrative requests.",
    ),
    effect=Effect.DESTROYS,
    check=check_target,
)
async def update_acl_config(
    admin: AdminClient,
    broker: str | None,
    cluster: str | None,
    account: str,
    is_admin: bool | None,
    **fields: str | None,
) -> Answer:
    """An existing account keeps the values of options that are not given.

    Brokers do not list their accounts, so the command asks for confirmation even if the account is new.
    """
    change = {name: value for name, value in fields.items() if value is not None}
    change["accessKey"] = account
    if is_admin is not None:
        change["admin"] = str(is_admin).lower()
    addresses = await _brokers(admin, broker, cluster)
    for address in addresses:
        await access.put_account(admin, address, change)
    return done("account is set", accessKey=account, brokers=addresses)


@admin_command(
    "deleteAclConfig",
    "Delete an account.",
    "-c DefaultCluster -a billing-app",
    BROKER,
    CLUSTER,
    ACCESS_KEY,
    effect=Effect.DESTROYS,
    check=check_target,
)
async def delete_access_config(
    admin: AdminClient, broker: str | None, cluster: str | None, account: str
) -> Answer:
    addresses = await _brokers(admin, broker, cluster)
    for address in addresses:
        await access.delete_account(admin, address, account)
    return done("account is deleted", accessKey=account, brokers=addresses)


@admin_command(
    "updateGlobalWhiteAddr",
    "Set the addresses that need no key.",
    "-c DefaultCluster -g '10.10.103.*,192.168.0.*'",
    BROKER,
    CLUSTER,
    text_option(
        "-g",
        "--globalWhiteRemoteAddresses",
        "white",
        "Addresses, separated by commas.",
        required=True,
    ),
    text_option("-p", "--aclFileFullPath", "path", "File of accounts, if there are several."),
    effect=Effect.DESTROYS,
    check=check_target,
)
async def update_global_white_addr(
    admin: AdminClient, broker: str | None, cluster: str | None, white: str, path: str | None
) -> Answer:
    addresses = await _brokers(admin, broker, cluster)
    for address in addresses:
        await access.put_global_white(admin, address, white, path)
    return done("addresses are set", globalWhiteRemoteAddresses=white, brokers=addresses)


@admin_command(
    "clusterAclConfigVersion",
    "Show the version of each broker's accounts.",
    "-c DefaultCluster",
    BROKER,
    CLUSTER,
)
async def cluster_acl_config_version(
    admin: AdminClient, broker: str | None, cluster: str | None
) -> Answer:
    rows = []
    for address in await _brokers(admin, broker, cluster):
        found = await access.accounts_version(admin, address)
        changed = time_text(found.changed_ms)
        rows.append((found.cluster, found.broker_name, found.address, found.counter, changed))
    columns = ("cluster", "brokerName", "brokerAddr", "aclConfigVersion", "lastUpdate")
    return Table(columns, rows)


COMMANDS = (
    update_acl_config,
    delete_access_config,
    update_global_white_addr,
    cluster_acl_config_version,
)
