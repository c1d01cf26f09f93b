"""Masters and slaves: the log, metadata, and what a master lacks (RocketMQ, HAService, SlaveSynchronize)."""
