"""Names of the properties that clients set and read (RocketMQ: MessageConst)."""

from __future__ import annotations

KEYS = "KEYS"
TAGS = "TAGS"
UNIQUE_KEY = "UNIQ_KEY"
DELAY_LEVEL = "DELAY"  # 1 to 18
SHARDING_KEY = "__SHARDINGKEY"  # key of a message sent in order
PRODUCER_GROUP = "PGROUP"
TRANSACTION = "TRAN_MSG"  # "true" for a half message
CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
RETRY_TOPIC = "RETRY_TOPIC"  # original topic of a message that was sent back
ORIGIN_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIMES = "RECONSUME_TIME"
RECONSUME_TIMES_MAX = "MAX_RECONSUME_TIMES"
CONSUME_START = "CONSUME_START_TIME"  # ms; set when the listener is called
CLUSTER = "CLUSTER"
MESSAGE_TYPE = "MSG_TYPE"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO = "REPLY_TO_CLIENT"
WAIT = "WAIT"  # "false": the answer to a send waits for neither flush nor replication
TIME_TO_LIVE = "TTL"  # ms
REGION = "MSG_REGION"  # if the broker adds it
TRACE_ON = "TRACE_ON"  # if the broker adds it; "false" switches trace off

RETRY_PREFIX = "%RETRY%"  # RocketMQ: MixAll.RETRY_GROUP_TOPIC_PREFIX
DEAD_LETTER_PREFIX = "%DLQ%"


def retry_topic(group: str) -> str:
    """The topic from which a group gets its retries (RocketMQ: MixAll.getRetryTopic)."""
    return f"{RETRY_PREFIX}{group}"
