"""The kinds of consumer that a group can have; each names an interface of RocketMQ 4.9 and a way to use it."""

from __future__ import annotations

PUSH = "push"  # DefaultMQPushConsumer: calls a listener
LITE_PULL = "lite-pull"  # DefaultLitePullConsumer, subscribed; polls commit what earlier ones gave
LITE_PULL_COMMIT = "lite-pull-commit"  # the same, but the caller commits
# the caller chooses the queues, and seeks to their start offsets
LITE_PULL_ASSIGN = "lite-pull-assign"
PULL = "pull"  # DefaultMQPullConsumer: the caller keeps queues, offsets and commits
CONSUMER_KINDS = (PUSH, LITE_PULL, LITE_PULL_COMMIT, LITE_PULL_ASSIGN, PULL)
LITE_PULLS = (LITE_PULL, LITE_PULL_COMMIT, LITE_PULL_ASSIGN)
CHOOSING = (LITE_PULL_ASSIGN, PULL)  # members divide queues by a fixed rule, without the brokers
