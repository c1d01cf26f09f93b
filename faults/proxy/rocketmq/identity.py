"""Identifies a client as far as its frames allow."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.json_dialect import BodyError, loads

# Fields in which requests name the client's group. Heartbeats also name it, but clients send them only every 30 s.
GROUP_FIELDS: dict[int, str] = {
    RequestCode.SEND_MESSAGE: "producerGroup",
    RequestCode.SEND_MESSAGE_V2: "a",
    RequestCode.SEND_BATCH_MESSAGE: "a",
    RequestCode.END_TRANSACTION: "producerGroup",
    RequestCode.PULL_MESSAGE: "consumerGroup",
    RequestCode.QUERY_CONSUMER_OFFSET: "consumerGroup",
    RequestCode.UPDATE_CONSUMER_OFFSET: "consumerGroup",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "consumerGroup",
    RequestCode.CONSUMER_SEND_MSG_BACK: "group",
}
# Fields of a heartbeat: lists of groups, and the name of a group in them.
GROUP_LISTS = ("producerDataSet", "consumerDataSet")
GROUP_NAME = "groupName"


class ClientIdentity:
    """The known names of one client. Calls `on_change` when they change."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.name = ""  # its client id, or the broker's name if it is a broker
        self.groups: dict[str, None] = {}
        self._on_change = on_change

    @property
    def names(self) -> tuple[str, ...]:
        return (*filter(None, [self.name]), *self.groups)

    def learn_name(self, name: str) -> None:
        self._learn(name, {})

    def learn_from(self, request: RemotingCommand) -> None:
        """Learn names from a request of a client to a broker. Only a heartbeat needs its body."""
        if request.code == RequestCode.HEART_BEAT:
            self._learn_heartbeat(request.body)
            return
        field = GROUP_FIELDS.get(request.code)
        group = request.ext_fields.get(field) if field else None
        if group and group not in self.groups:
            self._learn("", {group: None})

    def _learn_heartbeat(self, body: bytes) -> None:
        try:
            document = loads(body)
        except BodyError:
            return
        if not isinstance(document, dict):
            return
        client_id = document.get("clientID")
        groups = [
            member.get(GROUP_NAME)
            for listed in GROUP_LISTS
            for member in _list(document.get(listed))
            if isinstance(member, dict)
        ]
        self._learn(
            client_id if isinstance(client_id, str) else "",
            {group: None for group in groups if isinstance(group, str) and group},
        )

    def _learn(self, name: str, groups: dict[str, None]) -> None:
        before = self.names
        self.name = name or self.name
        self.groups.update(groups)
        if self.names != before:
            self._on_change()


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
