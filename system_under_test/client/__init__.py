"""Client library: producers, push, pull and polled consumers (RocketMQ: rocketmq-client).

A hung node delays a caller by at most three seconds: a request that several nodes can answer goes to another one after
half a second, and clients avoid a silent node until it answers again.
"""
