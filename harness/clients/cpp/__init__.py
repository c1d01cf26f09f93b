"""RocketMQ's C++ client (librocketmq in PyPI's `rocketmq`) as a second implementation of the load's clients."""
