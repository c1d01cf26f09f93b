"""Parts shared by all consumers: subscriptions, pulls, messages of a queue, calls of a listener."""
