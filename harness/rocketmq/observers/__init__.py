"""What the harness sees of a RocketMQ cluster beside the load: queues, stores, routes, look-ups, the drain."""
