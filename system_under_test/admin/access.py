"""Accounts of brokers: codes 50 to 53 (RocketMQ: MQClientAPIImpl's plain access config)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.protocol.bodies import DataVersion
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.json_dialect import loads


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountsVersion:
    """The version of a broker's accounts (RocketMQ: ClusterAclVersionInfo)."""

    cluster: str
    broker_name: str
    address: str
    counter: int
    changed_ms: int


async def put_account(admin: AdminClient, address: str, account: Mapping[str, str]) -> None:
    """Create an account, or replace fields of an existing one: named as in plain_acl.yml, lists joined with commas."""
    await admin.ask(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account)


async def delete_account(admin: AdminClient, address: str, access_key: str) -> None:
    await admin.ask(address, RequestCode.DELETE_ACL_CONFIG, {"accessKey": access_key})


async def put_global_white(
    admin: AdminClient, address: str, addresses: str, path: str | None = None
) -> None:
    """Allow every request from `addresses`, joined with commas; `path` names one of several account files."""
    header = {"globalWhiteAddrs": addresses}
    if path is not None:
        header["aclFileFullPath"] = path
    await admin.ask(address, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header)


async def accounts_version(admin: AdminClient, address: str) -> AccountsVersion:
    answer = await admin.ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
    ext = answer.ext_fields
    try:
        version = DataVersion.from_json(loads(ext["version"].encode()))
    except (KeyError, ValueError) as error:
        raise AdminError(f"the answer of {address} makes no sense: version: {error}") from error
    return AccountsVersion(
        cluster=ext.get("clusterName", ""),
        broker_name=ext.get("brokerName", ""),
        address=ext.get("brokerAddr", address),
        counter=version.counter,
        changed_ms=version.timestamp,
    )
