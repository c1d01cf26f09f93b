"""The registry that tells clients which broker serves which topic (RocketMQ: namesrv)."""
