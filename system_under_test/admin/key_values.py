"""Administration of name servers: key-value pairs, configuration, write permission of brokers."""

from __future__ import annotations

from staticfire.system_under_test.admin.client import AdminClient, read_int
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode


async def put_key_value(admin: AdminClient, namespace: str, key: str, value: str) -> None:
    """Set a pair on every name server: they share no state."""
    pair = {"namespace": namespace, "key": key, "value": value}
    await admin.ask_name_servers(RequestCode.PUT_KV_CONFIG, pair)


async def get_key_value(admin: AdminClient, namespace: str, key: str) -> str:
    """The value of a key. Raises AdminError with code 22 if there is none."""
    where = {"namespace": namespace, "key": key}
    answer = await admin.ask_name_server(RequestCode.GET_KV_CONFIG, where)
    return answer.ext_fields.get("value", "")


async def pair_on_each(admin: AdminClient, namespace: str, key: str) -> dict[str, str]:
    """The value on each name server that has one, by address. Raises AdminError unless all answer."""
    where, found = {"namespace": namespace, "key": key}, {}
    accepted = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    for address in admin.name_servers:
        answer = await admin.ask(address, RequestCode.GET_KV_CONFIG, where, accepted=accepted)
        if answer.code == ResponseCode.SUCCESS:
            found[address] = answer.ext_fields.get("value", "")
    return found


async def delete_key_value(admin: AdminClient, namespace: str, key: str) -> None:
    where = {"namespace": namespace, "key": key}
    await admin.ask_name_servers(RequestCode.DELETE_KV_CONFIG, where)


async def wipe_write_permission(admin: AdminClient, broker_name: str) -> dict[str, int]:
    """Remove the write permission of a broker from all topics; returns the number of topics by name server."""
    code, header = RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": broker_name}
    answers = await admin.ask_name_servers(code, header)
    return {
        address: read_int(address, answer, "wipeTopicCount") for address, answer in answers.items()
    }


async def add_write_permission(admin: AdminClient, broker_name: str) -> dict[str, int]:
    """The opposite of wipe_write_permission."""
    code, header = RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": broker_name}
    answers = await admin.ask_name_servers(code, header)
    return {
        address: read_int(address, answer, "addTopicCount") for address, answer in answers.items()
    }


async def name_server_config(admin: AdminClient) -> dict[str, str]:
    """The configuration of each name server, as text of Java properties, by address."""
    answers = await admin.ask_name_servers(RequestCode.GET_NAMESRV_CONFIG)
    return {address: answer.body.decode(errors="replace") for address, answer in answers.items()}


async def update_name_server_config(admin: AdminClient, key: str, value: str) -> None:
    body = f"{key}={value}".encode()
    await admin.ask_name_servers(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
