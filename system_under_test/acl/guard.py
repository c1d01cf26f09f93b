"""Checks each request against the accounts before a broker handles it (RocketMQ: PlainAccessValidator)."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from staticfire.system_under_test.acl.accounts import Account, Accounts
from staticfire.system_under_test.acl.permissions import NeedsOf, TopicAt
from staticfire.system_under_test.acl.signature import (
    ACCESS_KEY,
    FULL_SIGNATURE,
    SIGNATURE,
    UNIQUE_KEY_QUERY,
    full_signature_of,
    signature_of,
    signed_content,
)
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.runtime.env import Log, Storage
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.metadata_file import replace_atomically


class AclException(ValueError):
    """The request is not allowed; its sender gets code 1 and a text that begins with this name, as in RocketMQ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclPolicy:
    """What a guard requires of requests."""

    admin_codes: frozenset[int]
    needs_of: NeedsOf
    forgives_unique_key: bool  # Java's client signs a field that Java's broker leaves out


class AccessGuard:
    """Checks requests by the accounts of one file, as of the last time that it was read without a mistake.

    `requires_full_signature` refuses clients that sign as RocketMQ's do.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        policy: AclPolicy,
        log: Log,
        now_ms: Callable[[], int],
        topic_at: TopicAt,
        *,
        requires_full_signature: bool = False,
    ) -> None:
        self._requires_full_signature = requires_full_signature
        self._topic_at = topic_at
        self._storage = storage
        self._policy = policy
        self._log = log
        self._now_ms = now_ms
        self._read_at_ms = -1  # modification time of the file when it was last read
        self.path = path
        self.accounts = Accounts.from_text("{}")

    def load(self) -> None:
        """Read the file. Raises StoreError if there is none, or if it cannot be used."""
        try:
            self._read_at_ms = self._storage.modified_ms(self.path)
            self.accounts = Accounts.from_text(read_text(self._storage, self.path))
        except (OSError, ValueError) as error:
            raise StoreError(f"the accounts in {self.path} cannot be used: {error}") from error

    def reload(self) -> None:
        """Read the file again if it has changed; a mistake in it leaves the accounts as they were."""
        try:
            if self._storage.modified_ms(self.path) != self._read_at_ms:
                self.load()
                self._log.info("accounts read", path=self.path, accounts=len(self.accounts.by_key))
        except (OSError, StoreError) as error:
            self._log.error("accounts not read", error=str(error))

    def check(self, request: RemotingCommand, host: str) -> None:
        """Raises AclException, or ValueError for a request that cannot be read, so that its needs are unknown."""
        accounts = self.accounts
        if any(is_white(host) for is_white in accounts.global_white):
            return
        key = request.ext_fields.get(ACCESS_KEY)
        if key is None:
            raise AclException("No accessKey is configured")
        account = accounts.by_key.get(key)
        if account is None:
            raise AclException(f"No acl config for {key}")
        if account.is_white(host):
            return
        self._check_signature(request, account)
        self._check_full_signature(request, account)
        self._check_permissions(request, account)

    def _check_signature(self, request: RemotingCommand, account: Account) -> None:
        given = request.ext_fields.get(SIGNATURE, "").encode()
        ignored = [UNIQUE_KEY_QUERY]
        if self._policy.forgives_unique_key and UNIQUE_KEY_QUERY in request.ext_fields:
            ignored.append("")
        for name in ignored:
            content = signed_content(request.ext_fields, request.body, without=name)
            expected = signature_of(content, account.secret_key).encode()
            if hmac.compare_digest(given, expected):
                return
        raise AclException(f"Check signature failed for accessKey={account.access_key}")

    def _check_full_signature(self, request: RemotingCommand, account: Account) -> None:
        given = request.ext_fields.get(FULL_SIGNATURE)
        if given is None:
            if self._requires_full_signature:
                raise AclException(f"No {FULL_SIGNATURE}, which this broker requires")
            return
        expected = full_signature_of(request, account.secret_key)
        if not hmac.compare_digest(given.encode(), expected.encode()):
            raise AclException(f"Check full signature failed for accessKey={account.access_key}")

    def _check_permissions(self, request: RemotingCommand, account: Account) -> None:
        if request.code in self._policy.admin_codes and not account.is_admin:
            raise AclException(
                f"Need admin permission for request code={request.code},"
                f" but accessKey={account.access_key} is not"
            )
        if account.is_unlimited:
            return
        for need in self._policy.needs_of(request, self._topic_at):
            if not account.allows(need):
                default = "" if need.resource in account.permissions else "default "
                raise AclException(f"No {default}permission for {need.resource}")

    def replace(self, change: Callable[[Accounts, int], Accounts]) -> None:
        """Change the accounts, durably. Raises ValueError for an invalid change, or OSError."""
        accounts = change(self.accounts, self._now_ms())
        replace_atomically(self._storage, self.path, accounts.text().encode())
        self._read_at_ms = self._storage.modified_ms(self.path)
        self.accounts = accounts


def read_text(storage: Storage, path: str) -> str:
    """The content of a file. Raises OSError, or ValueError if it is not text."""
    file = storage.open(path)
    try:
        return file.pread(file.size(), 0).decode()
    finally:
        file.close()
