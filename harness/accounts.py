"""The accounts of a campaign with access control: their rights and their keys."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Keys = Mapping[str, str]  # access_key and secret_key; empty: the client does not sign its requests

# The administrators' and the brokers' keys.
OPERATOR: dict[str, Any] = {"access_key": "sf-operator", "secret_key": "operators-secret"}
# The keys of producers and consumers.
LOAD: dict[str, Any] = {"access_key": "sf-load", "secret_key": "secret-of-the-load"}

GUEST = "guest"  # may send until the fault rights-change withdraws its right
GUEST_KEY = "sf-guest"
# Reason for which a broker must refuse a send -> the account of the send.
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "signature": "forger",
        "no signature": "unsigned",
        "unknown account": "stranger",
        "no right": "reader",
    }
)
PLAIN = "plain"  # a pseudo-account: the keys of the load, without TLS
# The further keys of producers.
ACCOUNTS: Mapping[str, Keys] = MappingProxyType(
    {
        GUEST: {"access_key": GUEST_KEY, "secret_key": "secret-of-the-guest"},
        "forger": {"access_key": LOAD["access_key"], "secret_key": "not-what-the-broker-has"},
        "unsigned": {},
        "stranger": {"access_key": "sf-stranger", "secret_key": "secret-of-a-stranger"},
        "reader": {"access_key": "sf-reader", "secret_key": "secret-of-the-reader"},
    }
)

# RocketMQ's conf/plain_acl.yml, the same for every broker.
ACCOUNTS_FILE = f"""\
accounts:
- accessKey: {OPERATOR["access_key"]}
  secretKey: {OPERATOR["secret_key"]}
  admin: true
- accessKey: {LOAD["access_key"]}
  secretKey: {LOAD["secret_key"]}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: PUB|SUB
- accessKey: {GUEST_KEY}
  secretKey: {ACCOUNTS[GUEST]["secret_key"]}
  defaultTopicPerm: PUB
- accessKey: {ACCOUNTS["reader"]["access_key"]}
  secretKey: {ACCOUNTS["reader"]["secret_key"]}
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
""".encode()
# RocketMQ's conf/tools.yml: the keys by which a slave signs requests to its master.
CREDENTIALS_FILE = f"""\
accessKey: {OPERATOR["access_key"]}
secretKey: {OPERATOR["secret_key"]}
""".encode()


class GuestRights:
    """Whether every master has confirmed that the guest's right to send is withdrawn.

    Once administrators give the right back, its state stays unknown, since a master may carry out an unanswered request
    late.
    """

    def __init__(self) -> None:
        self.are_withdrawn = False
        self._were_given_back = False

    def withdrawn(self) -> None:
        """Note that every master that is not lost has confirmed the withdrawal."""
        self.are_withdrawn = not self._were_given_back

    def give_back(self) -> None:
        """Note that administrators ask masters to give the right back from now on."""
        self._were_given_back = True
        self.are_withdrawn = False
