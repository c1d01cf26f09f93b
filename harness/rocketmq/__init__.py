"""RocketMQ as a system under test: our own cluster, Apache's distribution, an external cluster."""
