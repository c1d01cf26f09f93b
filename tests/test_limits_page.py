"""docs/limits.md says what the sources say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from system_under_test import java_properties
from system_under_test.broker import (
    clients,
    offset_commits,
    send,
    subscription_groups,
    tag_filter,
    topics,
)
from system_under_test.broker.administration import topics_requests
from system_under_test.filters import sql92
from system_under_test.protocol import command, frames, json_dialect, registration
from system_under_test.remoting import allowed_hosts

PAGE = Path(__file__).parents[1] / "docs" / "limits.md"

LIMITS = {
    "bytes of a frame": frames.FRAME_SIZE_MAX,
    "bytes of a header": command.READ_HEADER_SIZE_MAX,
    "fields of a header": command.FIELDS_MAX,
    "bytes of a JSON body": json_dialect.REQUEST_SIZE_MAX,
    "elements of a JSON body": json_dialect.REQUEST_ELEMENTS_MAX,
    "characters of options to change (codes 25, 318)": java_properties.REQUEST_SIZE_MAX,
    "lines of options to change": java_properties.REQUEST_LINES_MAX,
    "groups of one connection": clients.GROUPS_MAX,
    "characters of all new SQL92 expressions of a heartbeat": sql92.TEXT_LENGTH_MAX,
    "characters of an SQL92 expression": sql92.TEXT_LENGTH_MAX,
    "tokens of an SQL92 expression": sql92.TOKENS_MAX,
    "characters of a line comment in it": sql92.LINE_COMMENT_LENGTH_MAX,
    "characters of a list of tags": tag_filter.TAGS_LENGTH_MAX,
    "groups that a broker makes by itself": subscription_groups.GROUPS_MAX,
    "topics that a broker makes for sends": topics.TOPICS_MAX,
    "queues of a topic": topics_requests.QUEUES_MAX,
    "messages of a batch": send.BATCH_MESSAGES_MAX,
    "properties of the messages of a batch": send.BATCH_PROPERTIES_MAX,
    "keys of the messages of a batch, beyond one each": send.BATCH_KEYS_MAX,
    "characters of a batch's own properties, in all its messages": send.SHARED_PROPERTIES_SIZE_MAX,
    "committed offsets of unknown topics, queues and groups": offset_commits.UNKNOWN_MAX,
    "topics of a registration": registration.TOPICS_MAX,
    "filter servers of a registration": registration.FILTER_SERVERS_MAX,
    "bytes of a registration without compression": registration.SIZE_MAX,
    "different refused replicas or brokers in the log": allowed_hosts.REFUSALS_LOGGED_MAX,
}


def rows() -> dict[str, str]:
    """The bounds of the first table, by what they bound."""
    table = PAGE.read_text().split("\n## ")[0]
    return dict(re.findall(r"^\| ([^|]+) \| ([\d,]+) \|", table, re.MULTILINE))


def test_the_page_names_every_limit_and_no_other() -> None:
    assert rows().keys() == LIMITS.keys()


@pytest.mark.parametrize("name", LIMITS)
def test_the_page_has_the_limit_of_the_sources(name: str) -> None:
    assert rows()[name] == f"{LIMITS[name]:,}"


def test_what_a_broker_makes_by_itself_can_be_registered() -> None:
    """Topics of sends, and of each group one for retries and one for dead letters."""
    made = topics.TOPICS_MAX + 2 * subscription_groups.GROUPS_MAX
    assert made < registration.TOPICS_MAX
