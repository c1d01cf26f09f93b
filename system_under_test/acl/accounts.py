"""The accounts of a broker: the content of plain_acl.yml (RocketMQ: PlainPermissionManager)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from staticfire.system_under_test.acl.addresses import IsWhite, make_matcher
from staticfire.system_under_test.acl.permissions import PERMISSIONS, RETRY_PREFIX, Need, Permission
from staticfire.system_under_test.acl.yaml_values import load_yaml, text_of, truth_of
from staticfire.system_under_test.protocol.bodies import DataVersion

KEY_LENGTH_MIN = 7  # RocketMQ: "length should longer than 6"
GLOBAL_ADDRESSES = "globalWhiteRemoteAddresses"
KINDS = {"topicPerms": "", "groupPerms": RETRY_PREFIX}
_EVERYTHING = Permission.PUB | Permission.SUB


class BadAccounts(ValueError):
    """The accounts file or a change to it cannot be used; the text is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One access key and its permissions."""

    access_key: str
    secret_key: str
    is_admin: bool
    is_white: IsWhite
    permissions: Mapping[str, Permission]  # by topic, and by retry topic for groups
    default_topic: Permission
    default_group: Permission

    @classmethod
    def from_document(cls, document: object) -> Account:
        """Raises BadAccounts."""
        if not isinstance(document, dict):
            raise BadAccounts(f"{document!r:.80} is no account")
        access_key = _key(document, "accessKey", "an account")
        return cls(
            access_key=access_key,
            secret_key=_key(document, "secretKey", access_key),
            is_admin=_truth(document, "admin", access_key),
            is_white=make_matcher(text_of(document.get("whiteRemoteAddress")) or ""),
            permissions={
                resource: permission
                for kind, prefix in KINDS.items()
                for resource, permission in _permissions(document.get(kind), prefix)
            },
            default_topic=_permission(document.get("defaultTopicPerm")),
            default_group=_permission(document.get("defaultGroupPerm")),
        )

    @property
    def is_unlimited(self) -> bool:
        """Whether it may send to every topic and consume from every topic with every group."""
        granted = (self.default_topic, self.default_group, *self.permissions.values())
        is_open = all(one == _EVERYTHING for one in granted)
        return is_open or (self.is_admin and not self.permissions)

    def allows(self, need: Need) -> bool:
        default = self.default_group if need.is_group else self.default_topic
        granted = self.permissions.get(need.resource, default)
        return not granted & Permission.DENY and bool(granted & need.permission)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The content of one version of the file; `document` is its parsed YAML."""

    document: dict[str, Any]
    by_key: Mapping[str, Account]
    global_white: tuple[IsWhite, ...]
    version: DataVersion

    @classmethod
    def from_text(cls, text: str) -> Accounts:
        """Raises BadAccounts or BadPattern."""
        try:
            document = load_yaml(text)
        except ValueError as error:
            raise BadAccounts(str(error)) from None
        if not isinstance(document, dict):
            raise BadAccounts("no accounts and no white addresses")
        accounts = [Account.from_document(a) for a in _list(document, "accounts")]
        versions = _list(document, "dataVersion")
        return cls(
            document=document,
            by_key={account.access_key: account for account in accounts},
            global_white=tuple(make_matcher(str(p)) for p in _list(document, GLOBAL_ADDRESSES)),
            version=DataVersion.from_json(versions[0]) if versions else DataVersion(),
        )

    def with_account(self, change: Mapping[str, Any], *, now_ms: int) -> Accounts:
        """With an account added, or with these fields of a known one replaced. Raises BadAccounts or BadPattern."""
        accounts = _list(self.document, "accounts")
        key = change["accessKey"]
        if key in self.by_key:
            accounts = [{**a, **change} if _has_key(a, key) else a for a in accounts]
        else:
            accounts = [*accounts, dict(change)]
        return self._changed({"accounts": accounts}, now_ms=now_ms)

    def without_account(self, access_key: str, *, now_ms: int) -> Accounts:
        """Raises BadAccounts if there is no such account."""
        if access_key not in self.by_key:
            raise BadAccounts(f"there is no account {access_key}")
        accounts = _list(self.document, "accounts")
        kept = [account for account in accounts if not _has_key(account, access_key)]
        return self._changed({"accounts": kept}, now_ms=now_ms)

    def with_global_white(self, addresses: list[str], *, now_ms: int) -> Accounts:
        """Raises BadPattern."""
        return self._changed({GLOBAL_ADDRESSES: addresses}, now_ms=now_ms)

    def text(self) -> str:
        dumped: str = yaml.safe_dump(self.document, sort_keys=False, allow_unicode=True)
        return dumped

    def _changed(self, change: dict[str, Any], *, now_ms: int) -> Accounts:
        version = DataVersion(timestamp=now_ms, counter=self.version.counter + 1)
        document = {**self.document, **change, "dataVersion": [version.to_json()]}
        return Accounts.from_text(yaml.safe_dump(document))


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    value = document.get(name) or []
    if not isinstance(value, list):
        raise BadAccounts(f"{name} is {value!r:.80}; a list is needed")
    return value


def _has_key(account: Mapping[str, Any], access_key: object) -> bool:
    return text_of(account.get("accessKey")) == access_key


def _key(document: Mapping[str, object], name: str, whose: str) -> str:
    value = text_of(document.get(name))
    if value is None or len(value) < KEY_LENGTH_MIN:
        raise BadAccounts(
            f"the {name} of {whose} must be text or a number of at least {KEY_LENGTH_MIN} characters"
        )
    return value


def _truth(document: Mapping[str, object], name: str, whose: str) -> bool:
    value = truth_of(document.get(name))
    if value is None:
        raise BadAccounts(
            f"the {name} of {whose} is {document[name]!r:.80}; true and false are allowed"
        )
    return value


def _permissions(items: object, prefix: str) -> list[tuple[str, Permission]]:
    """Entries such as `topicA=PUB|SUB`."""
    if not items:
        return []
    if not isinstance(items, list):
        raise BadAccounts(f"{items!r:.80} is no list of permissions")
    found = []
    for item in items:
        name, separator, permission = str(item).partition("=")
        if not separator:
            raise BadAccounts(f"{item!r:.80} is no permission; name=PUB|SUB is the form")
        found.append((prefix + name.strip(), _permission(permission)))
    return found


def _permission(value: object) -> Permission:
    """An empty value means DENY. Unlike RocketMQ, which reads any unknown word as DENY, this refuses one."""
    if value is None or value == "":
        return Permission.DENY
    permission = PERMISSIONS.get(str(value).strip())
    if permission is None:
        raise BadAccounts(f"{value!r:.80} is no permission; {', '.join(PERMISSIONS)} are allowed")
    return permission
