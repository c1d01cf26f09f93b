"""`staticfire admin`: name servers."""

from __future__ import annotations

from staticfire.harness.cli.admin.acting import Effect, changes_in_words
from staticfire.harness.cli.admin.answers import Answer, Record, Table
from staticfire.harness.cli.admin.command import (
    BROKER_NAME,
    Values,
    admin_command,
    done,
    text_option,
)
from staticfire.harness.cli.status import BadInput
from staticfire.system_under_test.admin import AdminClient, key_values

NAMESPACE = text_option("-s", "--namespace", "namespace", "Namespace.", required=True)
KEY = text_option("-k", "--key", "key", "Key.", required=True)
VALUE = text_option("-v", "--value", "value", "Value.", required=True)


@admin_command("getNamesrvConfig", "Show the configuration of the name servers.", "")
async def get_namesrv_config(admin: AdminClient) -> Answer:
    return _configs(await key_values.name_server_config(admin))


def _configs(texts: dict[str, str]) -> Answer:
    rows = []
    for address, text in texts.items():
        for line in sorted(text.splitlines()):
            if line and not line.startswith("#"):
                name, _, value = line.partition("=")
                rows.append((address, name, value))
    return Table(("address", "key", "value"), rows)


@admin_command(
    "updateNamesrvConfig",
    "Change one property of the name servers.",
    "-k orderMessageEnable -v true",
    KEY,
    VALUE,
    effect=Effect.DESTROYS,
    check=lambda values: check_property(values["key"], values["value"]),
)
async def update_namesrv_config(admin: AdminClient, key: str, value: str) -> Answer:
    await key_values.update_name_server_config(admin, key, value)
    return done(
        "configuration is changed", key=key, value=value, nameServers=list(admin.name_servers)
    )


def check_property(key: str, value: str) -> None:
    """Check one `key=value` line of Java properties. Raises BadInput."""
    if not key.isprintable() or any(character in key for character in "=: #!\\"):
        raise BadInput(f"key is {key!r}; allowed: the name of a property")
    if not value.isprintable() or "\\" in value:
        raise BadInput(f"value is {value!r}; allowed: text on one line without backslashes")


async def _overwritten(admin: AdminClient, values: Values) -> list[str]:
    """Raises AdminError."""
    namespace, key = values["namespace"], values["key"]
    there = await key_values.pair_on_each(admin, namespace, key)
    pairs = {server: {"value": value} for server, value in there.items()}
    return changes_in_words(f"key {key!r} of {namespace!r}", pairs, {"value": values["value"]})


@admin_command(
    "updateKvConfig",
    "Set a key-value pair on the name servers.",
    "-s ORDER_TOPIC_CONFIG -k Orders -v broker-a:4",
    NAMESPACE,
    KEY,
    VALUE,
    effect=Effect.CHANGES,
    overwrites=_overwritten,
)
async def update_kv_config(admin: AdminClient, namespace: str, key: str, value: str) -> Answer:
    await key_values.put_key_value(admin, namespace, key, value)
    return done("pair is set", namespace=namespace, key=key, value=value)


@admin_command(
    "getKvConfig",
    "Show a key-value pair from the name servers.",
    "-s ORDER_TOPIC_CONFIG -k Orders",
    NAMESPACE,
    KEY,
)
async def get_kv_config(admin: AdminClient, namespace: str, key: str) -> Answer:
    value = await key_values.get_key_value(admin, namespace, key)
    return Record({"namespace": namespace, "key": key, "value": value})


@admin_command(
    "deleteKvConfig",
    "Delete a key-value pair from the name servers.",
    "-s ORDER_TOPIC_CONFIG -k Orders",
    NAMESPACE,
    KEY,
    effect=Effect.DESTROYS,
)
async def delete_kv_config(admin: AdminClient, namespace: str, key: str) -> Answer:
    await key_values.delete_key_value(admin, namespace, key)
    return done("pair is deleted", namespace=namespace, key=key)


@admin_command(
    "wipeWritePerm",
    "Remove a broker's write permission for all topics.",
    "-b broker-a",
    BROKER_NAME,
    effect=Effect.DESTROYS,
)
async def wipe_write_perm(admin: AdminClient, broker_name: str) -> Answer:
    """Producers stop sending to the broker until it registers again."""
    return _counts(await key_values.wipe_write_permission(admin, broker_name))


@admin_command(
    "addWritePerm",
    "Give a broker its write permission back.",
    "-b broker-a",
    BROKER_NAME,
    effect=Effect.DESTROYS,
)
async def add_write_perm(admin: AdminClient, broker_name: str) -> Answer:
    """Make all its topics readable and writable, whatever their permissions, until the broker registers again."""
    return _counts(await key_values.add_write_permission(admin, broker_name))


def _counts(topics: dict[str, int]) -> Answer:
    return Table(("nameServer", "topics"), list(topics.items()))


COMMANDS = (
    get_namesrv_config,
    update_namesrv_config,
    update_kv_config,
    get_kv_config,
    delete_kv_config,
    wipe_write_perm,
    add_write_perm,
)
