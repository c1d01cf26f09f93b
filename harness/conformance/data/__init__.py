"""Data of RMQ-RCV-10: the store of an Apache RocketMQ 4.9.8 after a graceful stop, and its answers to sends."""
