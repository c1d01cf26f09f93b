"""The kinds of consumer that a group can have; each names an interface of RocketMQ 4.9 and a way to use it."""

from __future__ import annotations

PUSH = "push"  # DefaultMQPushConsumer: calls a listener
LITE_PULL = "lite-pull"  # DefaultLitePullConsumer, subscribed; polls commit what earlier ones gave
LITE_PULL_COMMIT = "lite-pull-commit"  # the same, but the caller commits
LITE_PULL_ASSIGN = "lite-pull-assign"  # with queues that the caller chooses, and begins by seeking
PULL = "pull"  # DefaultMQPullConsumer: the caller keeps queues, offsets and commits
CONSUMER_KINDS = (PUSH, LITE_PULL, LITE_PULL_COMMIT, LITE_PULL_ASSIGN, PULL)
LITE_PULLS = (LITE_PULL, LITE_PULL_COMMIT, LITE_PULL_ASSIGN)
CHOOSING = (LITE_PULL_ASSIGN, PULL)  # members share queues out by themselves, without the brokers
