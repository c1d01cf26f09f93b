"""Administration of accounts: codes 50 to 53 (RocketMQ, AdminBrokerProcessor), and the guard of a broker's ports."""

from __future__ import annotations

from functools import partial
from typing import Any

from staticfire.system_under_test.acl.accounts import Accounts
from staticfire.system_under_test.acl.guard import AccessGuard, AclPolicy, read_text
from staticfire.system_under_test.acl.signature import Credentials, Sign, make_signer
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.topic_redirection import real_destination
from staticfire.system_under_test.broker.metadata.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import decode_record
from staticfire.system_under_test.remoting import Connection, Handler
from staticfire.system_under_test.runtime.env import Env, Storage
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.delay_levels import SCHEDULE_TOPIC
from staticfire.system_under_test.store.errors import StoreError

WATCH_INTERVAL_S = 0.5  # RocketMQ, FileWatchService
NOT_ENABLED = "aclEnable is false"
LISTS = ("topicPerms", "groupPerms")  # comma lists in the request
TEXTS = ("secretKey", "whiteRemoteAddress", "defaultTopicPerm", "defaultGroupPerm")


class AccessControl:
    """The guard of one broker; without aclEnable it allows every request."""

    def __init__(
        self, env: Env, config: BrokerConfig, policy: AclPolicy, store: MessageStore
    ) -> None:
        self._config = config
        self.guard: AccessGuard | None = None
        if config.acl_enable:
            path = config.acl_path or f"{config.store_path}/config/plain_acl.yml"
            self.guard = AccessGuard(
                env.storage,
                path,
                policy,
                env.log,
                env.clock.wall_ms,
                partial(topic_at, store),
                requires_full_signature=config.acl_full_signature is not None,
            )

    def load(self) -> None:
        """Read the accounts. Raises StoreError."""
        if self.guard is not None:
            self.guard.load()

    def reload(self) -> None:
        """Read the accounts again if their file has changed."""
        if self.guard is not None:
            self.guard.reload()

    def guarded(self, handler: Handler) -> Handler:
        """A handler that checks each request before `handler` gets it; `handler` itself without a guard."""
        guard = self.guard
        if guard is None:
            return handler

        def handle(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
            guard.check(request, connection.remote_host)
            return handler(connection, request)

        return handle

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: self._put_account,
            RequestCode.DELETE_ACL_CONFIG: self._delete_account,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self._info,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self._put_global_white,
        }

    def _put_account(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        ext = request.ext_fields
        change: dict[str, Any] = {name: ext[name] for name in TEXTS if name in ext}
        change |= {name: _listed(ext[name]) for name in LISTS if name in ext}
        change["accessKey"] = ext.get("accessKey")
        if "admin" in ext:
            change["admin"] = ext["admin"].lower() == "true"
        return self._change(
            request,
            lambda accounts, now_ms: accounts.with_account(change, now_ms=now_ms),
            ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
        )

    def _delete_account(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        key = request.ext_fields.get("accessKey", "")
        return self._change(
            request,
            lambda accounts, now_ms: accounts.without_account(key, now_ms=now_ms),
            ResponseCode.DELETE_ACL_CONFIG_FAILED,
        )

    def _put_global_white(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        addresses = _listed(request.ext_fields.get("globalWhiteAddrs", ""))
        path = request.ext_fields.get("aclFileFullPath")

        def change(accounts: Accounts, now_ms: int) -> Accounts:
            if path and self.guard is not None and path != self.guard.path:
                raise ValueError(f"the file of this broker's accounts is {self.guard.path}")
            return accounts.with_global_white(addresses, now_ms=now_ms)

        code = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        return self._change(request, change, code)

    def _change(self, request: RemotingCommand, change: Any, failure: int) -> RemotingCommand:
        if self.guard is None:
            return RemotingCommand.response(request, failure, NOT_ENABLED)
        try:
            self.guard.replace(change)
        except (ValueError, OSError) as error:
            return RemotingCommand.response(request, failure, str(error))
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def _info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer the version of this broker's accounts, without their content."""
        if self.guard is None:
            return RemotingCommand.response(request, ResponseCode.SYSTEM_ERROR, NOT_ENABLED)
        version = self.guard.accounts.version.to_json()
        ext = {
            "version": json_dialect.dumps(version).decode(),
            "allAclFileVersion": json_dialect.dumps({self.guard.path: version}).decode(),
            "brokerName": self._config.broker_name,
            "brokerAddr": self._config.address,
            "clusterName": self._config.cluster_name,
        }
        return RemotingCommand.response(request, ResponseCode.SUCCESS, None, ext)


def _listed(text: str) -> list[str]:
    """The parts of a comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def topic_at(store: MessageStore, offset: int) -> str:
    """The topic to which the message at a physical offset was sent. Raises ValueError if no message begins there."""
    record = store.look_up(offset)
    if record is None:
        raise ValueError(f"no message begins at offset {offset}")
    message = decode_record(record)
    hidden = message.topic in (SCHEDULE_TOPIC, HALF_TOPIC, CHECK_MAX_TIME_TOPIC)
    destination = real_destination(message) if hidden else None
    return message.topic if destination is None else destination[0]


def broker_signer(storage: Storage, config: BrokerConfig) -> Sign | None:
    """The signer of a broker's own requests: a slave requests topics and offsets from its master. Raises StoreError."""
    path = config.acl_credentials_path
    if path is None:
        return None
    try:
        return make_signer(Credentials.from_text(read_text(storage, path)))
    except (OSError, ValueError) as error:
        raise StoreError(f"the credentials in {path} cannot be used: {error}") from error
