"""Observers of a RocketMQ cluster beside the load: queues, stores, routes, look-ups, the drain."""
