"""The parts that all consumers share: subscriptions, pulls, messages of a queue, calls of a listener."""
