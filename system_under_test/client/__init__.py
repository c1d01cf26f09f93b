"""Client library: producers, push, pull and polled consumers (RocketMQ: rocketmq-client).

Built so that no node that plays dead is felt for more than three seconds: every question that several nodes can
answer goes to another one after half a second, and a node that fell silent is left alone until it answers again.
"""
