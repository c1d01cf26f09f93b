"""Names of the properties that clients set and read (RocketMQ: MessageConst)."""

from __future__ import annotations

KEYS = "KEYS"
TAGS = "TAGS"
UNIQUE_KEY = "UNIQ_KEY"
DELAY_LEVEL = "DELAY"  # 1 to 18
SHARDING_KEY = "__SHARDINGKEY"  # of a message that was sent in order
PRODUCER_GROUP = "PGROUP"
TRANSACTION = "TRAN_MSG"  # "true" for a half message
CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
RETRY_TOPIC = "RETRY_TOPIC"  # of a message that was sent back: where it came from
ORIGIN_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIMES = "RECONSUME_TIME"
RECONSUME_TIMES_MAX = "MAX_RECONSUME_TIMES"
CONSUME_START = "CONSUME_START_TIME"  # ms; set when the listener is called
CLUSTER = "CLUSTER"
MESSAGE_TYPE = "MSG_TYPE"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO = "REPLY_TO_CLIENT"
WAIT = "WAIT"  # "false": the answer to a send waits for neither flush nor replica
TIME_TO_LIVE = "TTL"  # ms
REGION = "MSG_REGION"  # if the broker adds it
TRACE_ON = "TRACE_ON"  # the same; "false" switches trace off

RETRY_PREFIX = "%RETRY%"  # RocketMQ: MixAll.RETRY_GROUP_TOPIC_PREFIX
DEAD_LETTER_PREFIX = "%DLQ%"


def retry_topic(group: str) -> str:
    """Where a group's messages come again from (RocketMQ: MixAll.getRetryTopic)."""
    return f"{RETRY_PREFIX}{group}"
