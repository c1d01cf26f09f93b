"""The RocketMQ part of the proxy: frames, addresses in bodies and messages, names of clients."""
