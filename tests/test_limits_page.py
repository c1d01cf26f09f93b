"""docs/limits.md says what the sources say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from staticfire.system_under_test.broker.administration import topics_requests
from staticfire.system_under_test.broker.clients import asked_clients, clients, queue_locks
from staticfire.system_under_test.broker.delivery import half_messages
from staticfire.system_under_test.broker.flow_control import request_queue
from staticfire.system_under_test.broker.metadata import (
    consumer_filters,
    offset_commits,
    offsets,
    subscription_groups,
    tag_filter,
    topics,
)
from staticfire.system_under_test.broker.pulling import held_pulls as hold
from staticfire.system_under_test.broker.queries import hidden_messages
from staticfire.system_under_test.broker.replication import ha
from staticfire.system_under_test.broker.sending import batches, large_batches
from staticfire.system_under_test.broker.statistics import statistics
from staticfire.system_under_test.configuration import java_properties
from staticfire.system_under_test.filters import sql92
from staticfire.system_under_test.name_server import kv_config, route_table
from staticfire.system_under_test.protocol import command, frames, json_dialect, registration
from staticfire.system_under_test.remoting import allowed_hosts, pieces

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
    "queues of a topic": topics_requests.TOPIC_QUEUES_MAX,
    "characters of a batch's own properties, in all its messages": batches.SHARED_PROPERTIES_SIZE_MAX,
    "committed offsets of unknown topics, queues and groups": offset_commits.UNKNOWN_MAX,
    "topics of a registration": registration.TOPICS_MAX,
    "filter servers of a registration": registration.FILTER_SERVERS_MAX,
    "bytes of a registration without compression": registration.SIZE_MAX,
    "different refused replicas or brokers in the log": allowed_hosts.REFUSALS_LOGGED_MAX,
}

TABLE_LIMITS = {
    "connections to the port of replicas": ha.REPLICAS_MAX,
    "members of all groups": clients.MEMBERS_MAX,
    "characters of a client id, a group or a topic in a heartbeat": clients.NAME_LENGTH_MAX,
    "bytes of the subscriptions of all groups": clients.SUBSCRIPTIONS_SIZE_MAX,
    "SQL92 expressions of groups": consumer_filters.FILTERS_MAX,
    "characters of all of them": consumer_filters.TEXTS_LENGTH_MAX,
    "held pulls": hold.HELD_MAX,
    "held pulls of one connection": hold.HELD_OF_ONE_MAX,
    "characters that all held pulls keep": hold.TEXT_LENGTH_MAX,
    "bytes of the requests in a queue": request_queue.HELD_BYTES_MAX,
    "bytes of large batches, and of sends that wait for one": large_batches.WAITING_SIZE_MAX,
    "long queries that wait for their turn": pieces.WAITING_MAX,
    "requests passed on to clients (codes 223, 307, 309, 324, 325)": asked_clients.REQUESTS_MAX,
    "bytes of them": asked_clients.SIZE_MAX,
    "transactions given up whose late end still counts": half_messages.PARKED_MAX,
    "locks of queues": queue_locks.LOCKS_MAX,
    "characters of the names of a lock": queue_locks.NAMES_LENGTH_MAX,
    "bytes of the table of committed offsets": offsets.SIZE_MAX,
    "groups": subscription_groups.TABLE_MAX,
    "topics": topics.TABLE_MAX,
    "queues of all topics": topics.BROKER_QUEUES_MAX,
    "queues of deleted topics": hidden_messages.DELETED_QUEUES_MAX,
    "counters of queues, of groups in queues, and of retries, each": statistics.COUNTERS_MAX,
    "brokers": route_table.BROKERS_MAX,
    "topics of all brokers": route_table.ROUTES_MAX,
    "characters of a name in a registration": route_table.NAME_LENGTH_MAX,
    "namespaces and pairs of the configuration": kv_config.ENTRIES_MAX,
    "characters of the configuration": kv_config.SIZE_MAX,
}


def rows(section: int) -> dict[str, str]:
    """The bounds of a table, by what they bound: 0 of a request, 1 of what many requests may fill."""
    table = PAGE.read_text().split("\n## ")[section]
    return dict(re.findall(r"^\| ([^|]+) \| ([\d,]+) \|", table, re.MULTILINE))


@pytest.mark.parametrize(("section", "limits"), [(0, LIMITS), (1, TABLE_LIMITS)])
def test_the_page_names_every_limit_and_no_other(section: int, limits: dict[str, int]) -> None:
    assert rows(section).keys() == limits.keys()


@pytest.mark.parametrize("name", LIMITS)
def test_the_page_has_the_limit_of_the_sources(name: str) -> None:
    assert rows(0)[name] == f"{LIMITS[name]:,}"


@pytest.mark.parametrize("name", TABLE_LIMITS)
def test_the_page_has_the_limit_of_a_table(name: str) -> None:
    assert rows(1)[name] == f"{TABLE_LIMITS[name]:,}"


def test_what_a_broker_makes_by_itself_can_be_registered() -> None:
    """Topics of sends, and of each group one for retries and one for dead letters."""
    made = topics.TOPICS_MAX + 2 * subscription_groups.GROUPS_MAX
    assert made < registration.TOPICS_MAX
