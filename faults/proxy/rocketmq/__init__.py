"""What the proxy knows of RocketMQ: frames, addresses in bodies and messages, names of clients."""
